"""What a worker does beside jobs, and how often."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from worker.chores import PRESENCE_SECONDS, PROMOTE_SECONDS, Chores, Rhythm


class Hands:
    """A clock, a promoter and a presence, which write down what they were asked for."""

    def __init__(self) -> None:
        self.time = 100.0
        self.promoted: list[float] = []
        self.said: list[tuple[float, str]] = []

    def monotonic(self) -> float:
        return self.time

    def __call__(self, *, polite: bool) -> int:
        assert polite
        self.promoted.append(self.time)
        return 0

    def say(self, facts: Mapping[str, str | int]) -> None:
        self.said.append((self.time, str(facts["state"])))


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_a_rhythm_is_due_at_first_and_then_after_its_time(hands: Hands) -> None:
    rhythm = Rhythm(cast("Any", hands), 5)
    due = []
    for hands.time in (100, 104.9, 105, 109, 120, 121):
        due.append(rhythm.is_due())
    assert due == [True, False, True, False, True, False]


def test_promotion_and_presence_keep_their_times_and_a_new_state_is_said_at_once(hands: Hands) -> None:
    chores = Chores(cast("Any", hands), cast("Any", hands), "default", cast("Any", hands))
    for step in range(12):
        hands.time = 100 + step * 0.5
        chores.turn("idle" if step < 3 else "busy")
    assert hands.promoted == [100 + PROMOTE_SECONDS * number for number in range(6)]
    assert hands.said == [(100, "idle"), (101.5, "busy"), (100 + PRESENCE_SECONDS, "busy")]
