"""Plans in hand: given out when they are due, and only where planning anew would come to the same."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.hand import Hand, is_for_the_hand, usable_until
from scheduler.planner import plan
from scheduler.ports import DueRow, Planned
from scheduler.schedule import build
from scheduler.triggers import IntervalTrigger
from shared import Job

START = 1_700_000_000_000


class Held(Job):
    name = "held"

    def handle(self) -> None: ...


def planned(schedule_id: str = "s", at: int = START, period: float = 3600, until: int = 0, **options: Any) -> Planned:
    """A plan for the fire at `at`, made for `until` ms after it."""
    schedule = build(Held, IntervalTrigger(period, start=at / 1000), {"id": schedule_id, **options})
    return Planned(schedule=schedule, revision=1, plan=plan(schedule, at - 1, at + until))


def row(schedule_id: str, cursor: int) -> DueRow:
    return DueRow(id=schedule_id, due=START, revision=1, status="active", cursor=cursor)


def test_plans_are_given_out_by_due_time() -> None:
    hand = Hand()
    late, early = planned("late", START + 2), planned("early", START + 1)
    hand.add(late)
    hand.add(early)
    assert (hand.head, hand.take(START, 9)) == (START + 1, [])
    assert hand.take(START + 2, 9) == [early, late]
    assert (hand.head, len(hand)) == (None, 0)


def test_no_more_are_taken_than_asked_for() -> None:
    hand = Hand()
    for number in range(5):
        hand.add(planned(f"s{number}"))
    assert [len(hand.take(START, 2)) for _ in range(4)] == [2, 2, 1, 0]


def test_a_schedule_is_held_from_one_cursor() -> None:
    hand = Hand()
    hand.add(planned())
    assert hand.holds(row("s", START - 1))
    assert not hand.holds(row("s", START))
    assert not hand.holds(row("t", START - 1))
    hand.take(START, 1)
    assert not hand.holds(row("s", START - 1))


@pytest.mark.parametrize(
    ("period", "options", "patience"),
    [
        (3600, {}, 30_001),
        (3600, {"misfire_grace": 0.2}, 201),
        (3600, {"catchup_window": 0.3}, 301),
        (3600, {"expires_in": 0.4}, 401),
        (0.1, {}, 100),
    ],
)
def test_a_plan_is_let_go_when_planning_anew_would_come_to_something_else(
    period: float, options: dict[str, Any], patience: int
) -> None:
    one = planned(period=period, **options)
    assert usable_until(one) == START + patience
    for at, is_taken in ((START + patience - 1, True), (START + patience, False)):
        hand = Hand()
        hand.add(one)
        assert bool(hand.take(at, 1)) is is_taken
        assert len(hand) == 0


@pytest.mark.parametrize("options", [{"misfire_grace": 0.2}, {"catchup_window": 0.3}, {"expires_in": 0.4}])
def test_until_then_planning_anew_comes_to_the_same(options: dict[str, Any]) -> None:
    one = planned(**options)
    ends = usable_until(one)
    early, late = (_kinds(one, at) for at in (ends - 1, ends))
    assert early == _kinds(one, START) != late


def _kinds(one: Planned, now: int) -> list[tuple[str, str]]:
    decisions = plan(one.schedule, START - 1, now).decisions
    return [(type(decision).__name__, decision.kind) for decision in decisions]


def test_only_a_single_fire_at_the_time_of_its_entry_is_kept() -> None:
    assert is_for_the_hand(planned(), START)
    assert not is_for_the_hand(planned(), START + 1000)  # set aside, or held by a full queue
    assert not is_for_the_hand(planned(period=0.1, until=250, misfire="all", overlap="allow"), START)
    assert not is_for_the_hand(planned(until=60_000, misfire="skip"), START)
