"""Two versions of an app start in the same moment: whatever comes between, the newer one's schedules are stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import redis

from scheduler import IntervalTrigger
from scheduler.admin import Admin, Change
from scheduler.declared import Declared
from scheduler.readers import Reader
from scheduler.schedule import Schedule, build
from shared.clock import SystemClock
from shared.errors import RefusedChangeError
from shared.job import Job
from shared.keys import Keys

Deploy = Callable[..., None]


class Tick(Job):
    def handle(self) -> None: ...


class Interrupted(Admin):
    """Lets something else happen once, before or after one of its steps."""

    at = ""
    other: Callable[[], None]

    def reached(self, point: str) -> None:
        if point == self.at:
            self.at = ""
            self.other()

    def take_over(self, version: str, seen: bytes | None) -> bool:
        self.reached("before take_over")
        done = super().take_over(version, seen)
        self.reached("after take_over")
        return done

    def upsert(
        self, schedules: Sequence[Schedule], reason: str = "", app_version: str | None = None
    ) -> dict[str, Change]:
        self.reached("before upsert")
        done = super().upsert(schedules, reason, app_version)
        self.reached("after upsert")
        return done


@pytest.fixture
def admin(client: redis.Redis, keys: Keys) -> Interrupted:
    return Interrupted(client, keys, SystemClock(), "tester")


@pytest.fixture
def deploy(client: redis.Redis, keys: Keys, admin: Interrupted) -> Deploy:
    """Apply what an app declares in a version: ids with the seconds between their fires."""

    def apply(version: str | None, *, force: bool = False, **seconds: int) -> None:
        schedules = [build(Tick, IntervalTrigger(every), {"id": name}) for name, every in seconds.items()]
        one = Declared(schedules, version, Reader(client, keys), admin, SystemClock())
        one.apply(one.compare(), force=force)

    return apply


@pytest.fixture
def stored(client: redis.Redis, keys: Keys) -> Callable[[], dict[str, float]]:
    def read() -> dict[str, float]:
        reader = Reader(client, keys)
        return {view.id: reader.definition(view.id).trigger.seconds for view in reader.schedules()}  # type: ignore[attr-defined]

    return read


@pytest.mark.parametrize("point", ["before take_over", "after take_over", "before upsert", "after upsert"])
def test_a_newer_version_starts_in_the_middle_of_an_older_ones_start(
    deploy: Deploy, stored: Callable[[], dict[str, float]], admin: Interrupted, point: str
) -> None:
    deploy("1.0", a=10, b=10, gone=10)
    admin.at, admin.other = point, lambda: deploy("3.0", a=30, b=30, gone=30, new=30)
    with pytest.raises(RefusedChangeError):
        deploy("2.0", a=20, b=20)
    assert stored() == {"a": 30, "b": 30, "gone": 30, "new": 30}


def test_an_older_version_starts_in_the_middle_of_a_newer_ones_start(
    deploy: Deploy, stored: Callable[[], dict[str, float]], admin: Interrupted
) -> None:
    """What the newer one had found just so, and the older one has changed meanwhile, is the newer one's in the end."""
    deploy("1.0", a=10, b=10)
    admin.at, admin.other = "before take_over", lambda: deploy("2.0", a=20, b=20)
    deploy("3.0", a=10, b=10)
    assert stored() == {"a": 10, "b": 10}


def test_without_versions_the_last_start_wins(deploy: Deploy, stored: Callable[[], dict[str, float]]) -> None:
    deploy("2.0", a=20)
    deploy(None, a=10)
    assert stored() == {"a": 10}


def test_an_older_version_is_stored_by_force_alone(deploy: Deploy, stored: Callable[[], dict[str, float]]) -> None:
    deploy("2.0", a=20)
    with pytest.raises(RefusedChangeError, match=r"version 2\.0 .* the older 1\.0"):
        deploy("1.0", a=10)
    assert stored() == {"a": 20}
    deploy("1.0", force=True, a=10)
    assert stored() == {"a": 10}
    deploy("1.0", a=11)
    assert stored() == {"a": 11}


def test_what_is_no_version_is_replaced(
    deploy: Deploy, stored: Callable[[], dict[str, float]], client: redis.Redis, keys: Keys
) -> None:
    client.set(keys.app_version, b"\xff")
    deploy("1.0", a=10)
    assert stored() == {"a": 10}
    assert client.get(keys.app_version) == b"1.0"
