"""Faults that users of such schedulers met, as far as planning alone can show them. Named after their cases."""

from __future__ import annotations

from scheduler import IntervalTrigger, SchedulerManager
from scheduler.planner import Fire, plan
from scheduler.schedule import build
from scheduler.testing import simulate
from shared import Job

NOON = 1_700_049_600
HOUR = 3600


class Fielded(Job):
    name = "fielded"

    def handle(self) -> None: ...


def test_miss_grace_too_tight() -> None:
    """A beat that stood still for three seconds across each of twenty fires: twenty runs, none of them a misfire."""
    schedule = build(Fielded, IntervalTrigger(60), {"id": "s"})
    cursor, kinds = NOON * 1000, []
    for n in range(1, 21):
        made = plan(schedule, cursor, (NOON + 60 * n) * 1000 + 3000)
        kinds += [decision.kind for decision in made.decisions if isinstance(decision, Fire)]
        cursor = made.cursor
    assert kinds == ["scheduled"] * 20


def test_clock_drift_accumulates() -> None:
    """Every look comes twenty ms late; after 10,000 of them the fires still lie on the grid, without a gap."""
    schedule = build(Fielded, IntervalTrigger(1), {"id": "s"})
    cursor = NOON * 1000
    for n in range(1, 10_001):
        made = plan(schedule, cursor, NOON * 1000 + n * 1000 + 20)
        (fire,) = made.decisions
        assert fire.nominal == NOON * 1000 + n * 1000
        cursor = made.cursor


def test_backlog_flood_after_outage() -> None:
    """Fifty every-minute schedules, down for six hours: one catch-up each in the first minute."""
    manager = SchedulerManager()
    for n in range(50):
        manager.schedule(Fielded, IntervalTrigger(60), id=f"s{n}")
    decisions = simulate(
        manager, NOON, NOON + 6 * HOUR + 60, outages=[(NOON + 1, NOON + 6 * HOUR + 59)], as_ranges=False
    )
    assert decisions.fires.count <= 50
    assert decisions.count == 50 * 360


def test_backlog_workers_down() -> None:
    """Ten ten-second schedules and no worker for an hour: one job of each waits, and the skipped are counted."""
    manager = SchedulerManager()
    for n in range(10):
        manager.schedule(Fielded, IntervalTrigger(10), id=f"s{n}")
    decisions = simulate(manager, NOON, NOON + HOUR, durations={f"s{n}": 2 * HOUR for n in range(10)})
    assert decisions.fires.count == 10
    assert {(entry.outcome, entry.reason) for entry in decisions} == {("enqueued", ""), ("skipped", "overlap")}
    assert decisions.count == 10 * 359


def test_to_overlap_longer_than_period() -> None:
    """Period 5 s, run 12 s: skip, allow and buffer each do what they say."""
    counts = {}
    for overlap in ("skip", "allow", "buffer"):
        manager = SchedulerManager()
        manager.schedule(Fielded, IntervalTrigger(5), id="s", overlap=overlap)
        counts[overlap] = simulate(manager, NOON, NOON + 61, durations={"s": 12}).fires.count
    assert counts["allow"] == 12
    assert counts["skip"] == 4
    assert counts["buffer"] == 5
