"""How often Sentinel is asked by a process that has no thread for it."""

from __future__ import annotations

from typing import Any, cast

import pytest
from redis.sentinel import SentinelConnectionPool

from shared.redisio.primary import PrimaryWatch


class Clock:
    time = 100.0

    def monotonic(self) -> float:
        return self.time


class Pool(SentinelConnectionPool):
    """Asked, it takes so many seconds; with 2 or more it has no answer."""

    master_address = None

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.clock, self.seconds, self.asked = clock, seconds, 0

    def get_master_address(self) -> Any:
        self.asked += 1
        self.clock.time += self.seconds
        if self.seconds >= 2:
            raise TimeoutError("Sentinel is silent")
        return "127.0.0.1", 6379


class Client:
    def __init__(self, pool: object) -> None:
        self.connection_pool = pool


@pytest.mark.parametrize(("seconds", "asked"), [(0.0, 60), (2.0, 5)])
def test_sentinel_is_asked_each_second_and_a_silent_one_now_and_then(seconds: float, asked: int) -> None:
    """In a minute of turns; a silent one may take a sixth of it."""
    clock = Clock()
    pool = Pool(clock, seconds)
    watch = PrimaryWatch(cast("Any", Client(pool)), cast("Any", clock))
    while clock.time < 160:
        watch.turn()
        clock.time += 0.25
    assert pool.asked == asked


def test_a_client_without_sentinel_is_left_alone() -> None:
    PrimaryWatch(cast("Any", Client(object())), cast("Any", Clock())).turn()
