"""Both changes of clocks, in every zone there is, over five years: against the walk over the minutes, and by counting.

Zones that change alike in those years are tried once.
"""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from strategies import changes_of
from test_oracle import MINUTE, Meaning, fires, ours

from scheduler.triggers import CronTrigger

FROM, TO = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (2024, 2029))
AROUND = timedelta(hours=5)
LARGEST = timedelta(hours=3)
"""Beyond it a change of offset is a change of zone, and other rules hold."""


def offset(zone, at):
    return datetime.fromtimestamp(at, zone).utcoffset()


def found():
    """(zone, instant, by how much) of every change, and how many zones there are."""
    seen, changes, zones = set(), [], available_timezones() - {"localtime"}
    for name in sorted(zones):
        zone = ZoneInfo(name)
        steps = [(at, offset(zone, at - 1), offset(zone, at)) for at in changes_of(name) if FROM < at < TO]
        key = tuple(step for step in steps if step[1] != step[2])
        if key not in seen:
            seen.add(key)
            changes += [(name, at, after - before) for at, before, after in key if abs(after - before) < LARGEST]
    return changes, zones


CHANGES, ALL = found()


def meaning(text, minutes, hours):
    """An expression of every day, and what it means."""
    made = Meaning.__new__(Meaning)
    made.text, made.minutes, made.hours = text, minutes, hours
    made.months, made.is_day, made.is_weekday = range(1, 13), lambda _: True, lambda _: True
    made.is_wild, made.needs_both = text.startswith("*"), True
    return made


FIXED = meaning("5,35 0-23 * * *", {5, 35}, set(range(24)))
WILD = meaning("*/20 * * * *", {0, 20, 40}, set(range(24)))


def test_there_are_changes_both_ways_in_many_zones():
    assert len(ALL) > 400
    assert len(CHANGES) > 300
    assert min(by for _, _, by in CHANGES) < timedelta(0) < max(by for _, _, by in CHANGES)


@pytest.mark.fault("F33")
@pytest.mark.parametrize("expression", [FIXED, WILD], ids=["fixed", "wild"])
def test_every_change_agrees_with_a_walk_over_the_minutes(expression):
    for name, at, _ in CHANGES:
        trigger, change = CronTrigger(expression.text, name), datetime.fromtimestamp(at // 60 * 60, UTC)
        walked = fires(expression, change - AROUND, change + AROUND, ZoneInfo(name))
        assert len(walked) >= 14
        assert ours(trigger, change - AROUND, change + AROUND) == walked, (name, change)


@pytest.mark.fault("F33")
@pytest.mark.parametrize(("gap", "count"), [("next", 1), ("shift", 1), ("skip", 0)])
def test_a_time_that_a_change_leaves_out_fires_by_the_policy_for_gaps(gap, count):
    for name, at, by in CHANGES:
        if by > timedelta(0):
            wall = datetime.fromtimestamp(at - 60, ZoneInfo(name)).replace(tzinfo=None) + MINUTE + by / 2
            assert _fires_of(wall, name, at, gap=gap) == count, (name, wall)


@pytest.mark.fault("F33")
@pytest.mark.parametrize(("repeat", "count"), [("first", 1), ("last", 1), ("both", 2)])
def test_a_time_that_a_change_repeats_fires_by_the_policy_for_repeats(repeat, count):
    for name, at, by in CHANGES:
        if by < timedelta(0):
            wall = datetime.fromtimestamp(at, ZoneInfo(name)).replace(tzinfo=None) - by / 2
            assert _fires_of(wall, name, at, repeat=repeat) == count, (name, wall)


def _fires_of(wall, name, at, **policies):
    """How often a time of day fires within ten hours of a change."""
    trigger = CronTrigger(f"{wall.minute} {wall.hour} * * *", name, **policies)
    start = datetime.fromtimestamp(at, UTC)
    return len(ours(trigger, start - 2 * AROUND, start + 2 * AROUND))
