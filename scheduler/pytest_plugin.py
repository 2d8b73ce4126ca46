"""Fixtures for tests of apps: time that stands still, jobs that run at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from scheduler.eager import EagerOutbox
    from scheduler.testing import ManualClock


@pytest.fixture
def manual_clock() -> ManualClock:
    """A clock that stands still until it is moved: `SchedulerManager(clock=manual_clock)`."""
    from scheduler.testing import ManualClock  # noqa: PLC0415 - a plugin loads with every run of pytest

    return ManualClock()


@pytest.fixture
def eager_jobs() -> Iterator[EagerOutbox]:
    """Jobs run in this process, at once; what they raise is raised."""
    from scheduler.testing import eager  # noqa: PLC0415 - a plugin loads with every run of pytest

    with eager() as outbox:
        yield outbox
