"""What a beat would decide: outages, pauses, clock steps, slow jobs, and long spans in no time."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest

from scheduler import CronTrigger, DateTrigger, IntervalTrigger, SchedulerManager
from scheduler.testing import Decisions, simulate
from shared import Job
from shared.errors import ConfigurationError

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC).timestamp()
HOUR, DAY = 3600.0, 86_400.0


class Simulated(Job):
    name = "simulated"

    def handle(self) -> None: ...


def run(trigger: Any, seconds: float, options: dict[str, Any] | None = None, **inputs: Any) -> Decisions:
    manager = SchedulerManager()
    manager.schedule(Simulated, trigger, **{"id": "s", **(options or {})})
    return simulate(manager, NOON, NOON + seconds, **inputs)


def told(decisions: Decisions) -> list[tuple[str, str, int]]:
    return [(entry.outcome, entry.reason, entry.count) for entry in decisions]


def test_a_quiet_year_is_one_range() -> None:
    decisions = run(IntervalTrigger(300), 365 * DAY)
    assert told(decisions) == [("enqueued", "", 365 * 288 - 1)]
    assert decisions.fires.count == decisions.count


def test_fires_are_what_the_trigger_yields() -> None:
    berlin = CronTrigger("30 2 * * *", timezone="Europe/Berlin")
    times = [entry.nominal for entry in run(berlin, 60 * DAY, as_ranges=False).fires]
    assert times == [
        round(at.timestamp() * 1000) for at in berlin.fire_times(NOON, 60) if at.timestamp() < NOON + 60 * DAY
    ]


def test_an_outage_is_caught_up_by_the_misfire_policy() -> None:
    decisions = run(IntervalTrigger(60), HOUR, outages=[(NOON + 590, NOON + 1190)])
    assert told(decisions) == [
        ("enqueued", "", 9),
        ("coalesced", "misfire", 9),
        ("enqueued", "", 1),
        ("enqueued", "", 40),
    ]


def test_thirty_days_of_outage_at_ten_milliseconds_are_a_few_ranges() -> None:
    decisions = run(IntervalTrigger(0.01), 31 * DAY, outages=[(NOON + 1, NOON + 30 * DAY)])
    assert decisions.count == round(31 * DAY * 100) - 1
    assert len(decisions) <= 6


def test_what_lies_in_a_pause_is_skipped_as_one_range() -> None:
    decisions = run(IntervalTrigger(60), HOUR, pauses={"s": [(NOON + 90, NOON + 630)]})
    assert told(decisions) == [("enqueued", "", 1), ("skipped", "paused", 9), ("enqueued", "", 49)]


def test_a_slow_job_makes_later_fires_skip() -> None:
    decisions = run(IntervalTrigger(60), 10 * 60, durations={"s": 150})
    assert told(decisions) == [
        ("enqueued", "", 1),
        ("skipped", "overlap", 2),
        ("enqueued", "", 1),
        ("skipped", "overlap", 2),
        ("enqueued", "", 1),
        ("skipped", "overlap", 2),
    ]


def test_overlap_that_is_allowed_never_skips() -> None:
    assert told(run(IntervalTrigger(60), 600, {"overlap": "allow"}, durations={"s": 150})) == [("enqueued", "", 9)]


@pytest.mark.parametrize("seconds", [-7200, -2, 2, 6 * 3600])
def test_a_step_of_the_clock_doubles_and_loses_nothing(seconds: float) -> None:
    decisions = run(IntervalTrigger(60), 4 * HOUR, {"catchup_window": DAY}, clock_steps=[(NOON + 600, seconds)])
    covered = sorted((entry.nominal, entry.until) for entry in decisions)
    assert all(before[1] + 60_000 == after[0] for before, after in pairwise(covered))


def test_a_limit_ends_a_schedule() -> None:
    assert run(IntervalTrigger(60), HOUR, {"limit": 5}).fires.count == 5


def test_a_single_date_fires_once() -> None:
    assert told(run(DateTrigger(NOON + 60), HOUR)) == [("enqueued", "", 1)]


def test_several_schedules_are_told_apart() -> None:
    manager = SchedulerManager()
    for n in range(10):
        manager.schedule(Simulated, IntervalTrigger(300), id=f"s{n}")
    decisions = simulate(manager, NOON, NOON + 365 * DAY)
    assert decisions.count == 10 * (365 * 288 - 1)
    assert decisions.of("s3").count == 365 * 288 - 1


def test_a_pause_of_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nothing"):
        run(IntervalTrigger(60), HOUR, pauses={"nothing": [(NOON, NOON + 1)]})
