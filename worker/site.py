"""Where a run takes place: what the guard knows of the job at hand and `run` can't read from its payload.

A context variable carries it, so that the one callable that RQ calls keeps its two arguments, and middleware finds the
store that the run uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.redisio.intake import Begun
    from shared.redisio.runs import Runs


class RunOverError(TimeoutError):
    """The time of this run is up. Raised inside it; nothing of ours tries again what ended with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One run: the job's id, what it found, the store, and how long marks and checkpoints must outlive its start."""

    job_id: str
    begun: Begun
    runs: Runs
    memory_seconds: int
    open_marks: set[str] = field(default_factory=set)
    """The once-blocks that this run is inside of."""


_current: ContextVar[Site | None] = ContextVar("rqbeat_site", default=None)


def current_site() -> Site | None:
    """The run that this code is part of, None outside of a worker."""
    return _current.get()


@contextmanager
def taking_place_at(site: Site) -> Iterator[None]:
    """Within the block, `site` is the current one."""
    token = _current.set(site)
    try:
        yield
    finally:
        _current.reset(token)
