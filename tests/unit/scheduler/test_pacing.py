"""Two clocks and the time that has come by both; chores that wait for their turn."""

from __future__ import annotations

from scheduler.pacing import Seldom, SlowerClock
from scheduler.testing import ManualClock

NOW = 1_700_000_000_000


def test_a_clock_that_is_ahead_of_redis_waits_for_it() -> None:
    clock = ManualClock(wall_ms=NOW)
    common = SlowerClock(clock)
    common.looked(NOW, NOW - 40)
    assert common.now_ms() == NOW - 40
    common.replied(NOW - 90, was_early=True)
    assert common.now_ms() == NOW - 90


def test_what_a_reply_took_makes_redis_no_later_than_it_is() -> None:
    """A reply that took 500 ms looks like a clock that is 500 ms behind; fires do not wait for that."""
    common = SlowerClock(ManualClock(wall_ms=NOW))
    common.replied(NOW - 500)
    assert common.now_ms() == NOW
    common.looked(NOW, NOW - 40)
    common.replied(NOW - 500)
    assert common.now_ms() == NOW - 40


def test_redis_has_caught_up_as_soon_as_a_reply_says_so() -> None:
    common = SlowerClock(ManualClock(wall_ms=NOW))
    common.looked(NOW, NOW - 40)
    common.replied(NOW + 5)
    assert common.now_ms() == NOW


def test_a_chore_that_has_more_to_do_is_run_at_the_next_call() -> None:
    """What completes at a high rate must be forgotten at that rate."""
    answers = iter([True, True, False, True])
    calls: list[bool] = []

    def chore() -> bool:
        calls.append(next(answers))
        return calls[-1]

    seldom = Seldom(chore, 60, ManualClock(wall_ms=NOW))
    for _ in range(9):
        seldom()
    assert calls == [True, True, False]
