"""The next-run table of the planner, a test a row, and the shape of a plan whatever the outage."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.planner import Against, Fire, Plan, due_time, first_cursor, plan
from scheduler.schedule import Schedule, build
from scheduler.triggers import CronTrigger, DateTrigger, IntervalTrigger, Trigger
from shared import Job

SECOND = 1000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
NOON = 1_700_049_600_000  # 2023-11-15T12:00:00Z


class Report(Job):
    name = "planner-report"

    def handle(self) -> None: ...


def schedule(trigger: Trigger | None = None, **options: Any) -> Schedule:
    return build(Report, trigger or IntervalTrigger(60), {"id": "s", **options})


def decided(made: Plan) -> list[tuple[str, str, int, int]]:
    """(outcome, reason, first nominal, count), relative to noon in minutes."""
    rows = []
    for decision in made.decisions:
        match decision:
            case Fire():
                rows.append(("enqueue", decision.kind, (decision.nominal - NOON) // MINUTE, 1))
            case Against():
                rows.append((decision.outcome, decision.reason, (decision.nominal - NOON) // MINUTE, decision.count))
    return rows


def test_a_fire_that_is_due_is_enqueued_and_the_cursor_is_its_nominal_time() -> None:
    made = plan(schedule(), NOON - MINUTE, NOON + 5)
    assert decided(made) == [("enqueue", "scheduled", 0, 1)]
    assert (made.base, made.cursor, made.next, made.due) == (NOON - MINUTE, NOON, NOON + MINUTE, NOON + MINUTE)


def test_nothing_due_moves_the_index_alone() -> None:
    made = plan(schedule(), NOON, NOON + 5)
    assert (made.base, made.cursor, made.next, made.decisions) == (NOON, NOON, NOON + MINUTE, ())


def test_several_late_ones_go_into_the_latest() -> None:
    made = plan(schedule(misfire_grace=0), NOON - 4 * MINUTE, NOON + 1)
    assert decided(made) == [("coalesced", "misfire", -3, 3), ("enqueue", "catchup", 0, 1)]
    late, kept = made.decisions
    assert isinstance(late, Against)
    assert isinstance(kept, Fire)
    assert late.job_id == kept.job_id


def test_late_ones_go_into_the_first_that_is_still_in_its_grace() -> None:
    made = plan(schedule(misfire_grace=30), NOON - 3 * MINUTE, NOON + 10 * SECOND)
    assert decided(made) == [("coalesced", "misfire", -2, 2), ("enqueue", "scheduled", 0, 1)]


@pytest.mark.parametrize(
    ("misfire", "rows"),
    [
        ("all", [("enqueue", "catchup", -2, 1), ("enqueue", "catchup", -1, 1), ("enqueue", "catchup", 0, 1)]),
        ("latest", [("coalesced", "misfire", -2, 2), ("enqueue", "catchup", 0, 1)]),
        ("earliest", [("enqueue", "catchup", -2, 1), ("coalesced", "misfire", -1, 2)]),
        ("skip", [("missed", "misfire", -2, 3)]),
    ],
)
def test_each_misfire_policy_covers_every_late_fire_once(misfire: str, rows: list[Any]) -> None:
    assert rows == decided(plan(schedule(misfire=misfire), NOON - 3 * MINUTE, NOON + 45 * SECOND))


def test_within_the_grace_nothing_is_a_misfire() -> None:
    made = plan(schedule(IntervalTrigger(10), misfire="skip"), NOON - 30 * SECOND, NOON + 5)
    assert [row[0] for row in decided(made)] == ["enqueue"] * 3


def test_what_is_older_than_the_window_is_missed_as_one_range() -> None:
    made = plan(schedule(catchup_window=120, misfire="all"), NOON - 10 * MINUTE, NOON + 1)
    assert decided(made)[0] == ("missed", "window", -9, 8)
    assert [row[2] for row in decided(made)[1:]] == [-1, 0]


def test_over_the_limit_the_newest_are_kept() -> None:
    made = plan(schedule(catchup_limit=3, misfire="all", misfire_grace=0), NOON - 10 * MINUTE, NOON + 1)
    assert decided(made) == [
        ("missed", "limit", -9, 7),
        *(("enqueue", "catchup", at, 1) for at in (-2, -1, 0)),
    ]


def test_what_is_past_its_own_deadline_is_missed() -> None:
    made = plan(schedule(expires_in=90, misfire="all", misfire_grace=0), NOON - 5 * MINUTE, NOON + 1)
    assert decided(made) == [("missed", "deadline", -4, 3), ("enqueue", "catchup", -1, 1), ("enqueue", "catchup", 0, 1)]


def test_window_deadline_and_limit_follow_each_other_without_a_gap() -> None:
    options = {"catchup_window": 600, "expires_in": 300, "catchup_limit": 2, "misfire": "all", "misfire_grace": 0}
    made = plan(schedule(**options), NOON - 20 * MINUTE, NOON + 1)
    assert [row[:2] for row in decided(made)[:3]] == [("missed", "window"), ("missed", "deadline"), ("missed", "limit")]
    assert sum(row[3] for row in decided(made)) == 20


def test_backlog_over_100_missed() -> None:
    """Thirty days of a 10 ms schedule: 259 million fires, one plan of bounded size."""
    made = plan(schedule(IntervalTrigger(0.01)), NOON - 30 * 24 * HOUR, NOON)
    assert len(made.decisions) <= 102
    assert sum(decision.count if isinstance(decision, Against) else 1 for decision in made.decisions) == 259_200_000
    assert (made.cursor, made.next) == (NOON, NOON + 10)


def test_an_outage_of_one_hour_at_one_second_keeps_the_newest_hundred() -> None:
    made = plan(
        schedule(IntervalTrigger(1), misfire="all", overlap="allow", catchup_window=7200), NOON - HOUR, NOON + 1
    )
    enqueued = [decision for decision in made.decisions if isinstance(decision, Fire)]
    against = [decision for decision in made.decisions if isinstance(decision, Against)]
    assert (len(enqueued), [(item.reason, item.count) for item in against]) == (100, [("limit", 3500)])


def test_an_exhausted_trigger_leaves_nothing_to_wait_for() -> None:
    made = plan(schedule(DateTrigger(NOON / 1000)), NOON - 1, NOON)
    assert (decided(made), made.next, made.due) == ([("enqueue", "scheduled", 0, 1)], None, None)


@pytest.mark.parametrize(
    ("age", "rows"),
    [
        (MINUTE, [("enqueue", "catchup", 0, 1)]),
        (24 * HOUR, [("missed", "window", 0, 1)]),
        (365 * 24 * HOUR, [("missed", "window", 0, 1)]),
    ],
)
def test_backlog_date_in_past(age: int, rows: list[Any]) -> None:
    once = schedule(DateTrigger(NOON / 1000))
    cursor = first_cursor(once, NOON + age)
    made = plan(once, cursor, NOON + age)
    assert (decided(made), made.next) == (rows, None)
    assert plan(once, made.cursor, NOON + 2 * age).decisions == ()


def test_dup_same_minute_recalculated() -> None:
    """Whenever a beat looks within the minute just fired, it finds nothing more to fire."""
    every_minute = schedule(CronTrigger("* * * * *"))
    for offset in range(0, MINUTE, 7 * SECOND):
        assert plan(every_minute, NOON, NOON + offset).decisions == ()


def test_clock_step_back() -> None:
    """After the clock was set back two hours, what was fired is not fired again and the next fire is kept."""
    made = plan(schedule(), NOON, NOON - 2 * HOUR)
    assert (made.decisions, made.cursor, made.next) == ((), NOON, NOON + MINUTE)


def test_clock_step_forward() -> None:
    """A jump of twenty years is one bounded plan."""
    made = plan(schedule(IntervalTrigger(1)), NOON, NOON + 20 * 365 * 24 * HOUR)
    assert len(made.decisions) <= 102


def test_backlog_clock_jump_memory() -> None:
    made = plan(schedule(IntervalTrigger(1)), 0, 7_258_118_400_000)  # from 1970 to 2200
    assert len(made.decisions) <= 102
    assert sum(item.count if isinstance(item, Against) else 1 for item in made.decisions) == 7_258_118_400


def test_miss_fire_during_deploy() -> None:
    """Down from a minute before a daily fire to a minute after: one late run with its nominal time."""
    daily = schedule(CronTrigger("0 12 * * *"))
    assert decided(plan(daily, NOON - 24 * HOUR, NOON + MINUTE)) == [("enqueue", "catchup", 0, 1)]
    gone_for_long = plan(daily, NOON - 24 * HOUR, NOON + 2 * HOUR)
    assert decided(gone_for_long) == [("missed", "window", 0, 1)]


def test_jitter_moves_the_due_time_and_never_past_the_next_nominal() -> None:
    spread = schedule(IntervalTrigger(60, jitter=600))
    dues = [due_time(spread, NOON + i * MINUTE) - NOON - i * MINUTE for i in range(200)]
    assert min(dues) >= 0
    assert max(dues) == MINUTE
    assert len(set(dues)) > 5


def test_a_fire_is_not_due_before_its_jitter() -> None:
    spread = schedule(IntervalTrigger(60, jitter=59))
    due = due_time(spread, NOON)
    assert due > NOON
    assert plan(spread, NOON - MINUTE, due - 1).decisions == ()
    assert len(plan(spread, NOON - MINUTE, due).decisions) == 1


def test_a_fire_knows_its_neighbours_and_its_deadline() -> None:
    made = plan(schedule(expires_in=3600), NOON - MINUTE, NOON)
    (fire,) = made.decisions
    assert isinstance(fire, Fire)
    context = fire.context
    assert (context.previous, context.nominal, context.next) == (NOON - MINUTE, NOON, NOON + MINUTE)
    assert context.deadline == NOON + HOUR
