"""A clock beside Redis' clock, and beside elapsed time."""

from __future__ import annotations

import pytest

from scheduler.clockcheck import ClockCheck
from scheduler.testing import ManualClock


@pytest.mark.parametrize(("skew", "agrees"), [(0, True), (4.9, True), (-4.9, True), (5.1, False), (-3600, False)])
def test_a_clock_may_be_five_seconds_off(skew: float, agrees: bool) -> None:
    clock = ManualClock()
    check = ClockCheck(clock)
    assert check.agrees(clock.now_ms() - round(skew * 1000)) is agrees
    assert bool(check.problem) is not agrees


def test_trouble_is_said_once_when_it_begins_and_once_when_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = ManualClock()
    check = ClockCheck(clock)
    for skew in (0, 9000, 9000, 9000, 0, 0):
        check.agrees(clock.now_ms() - skew)
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "+9.0 s" in caplog.text


@pytest.mark.parametrize(("seconds", "told"), [(3600, True), (-7200, True), (0.5, False)])
def test_a_jump_against_elapsed_time_is_told(seconds: float, told: bool, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    check = ClockCheck(clock)
    clock.advance(10)
    clock.step(seconds)
    check.agrees(clock.now_ms())
    assert ("against elapsed time" in caplog.text) is told
