"""Cron against an oracle that shares nothing with the engine: it walks the minutes of a zone and looks at the wall
clock.

The oracle never parses: an expression is drawn as text together with what it means. It decides a fixed time in a
repeated hour by `fold`, and in a gap by comparing the wall clock with that of the minute before. `RQBEAT_ORACLE=20000`
runs that many random expressions, each over three days around a change of its zone, and prints the count.
"""

import calendar
import os
import random
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from strategies import ZONES, changes_of

from scheduler.triggers import CronTrigger
from shared.errors import NeverFiresError

CASES = int(os.environ.get("RQBEAT_ORACLE", "300"))
MINUTE = timedelta(minutes=1)
NAMES = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]


def draw_values(draw, low, high):
    """A field's text, and the set of values that it means."""
    kind = draw.randrange(6)
    a, b, step = draw.randint(low, high), draw.randint(low, high), draw.randint(1, high)
    a, b = min(a, b), max(a, b)
    if kind == 0:
        return "*", set(range(low, high + 1))
    if kind == 1:
        return f"*/{step}", set(range(low, high + 1, step))
    if kind == 2:
        return f"{a}-{b}", set(range(a, b + 1))
    if kind == 3:
        return f"{a}-{b}/{step}", set(range(a, b + 1, step))
    if kind == 4:
        return f"{a}/{step}", set(range(a, high + 1, step))
    return f"{a},{b:02d}", {a, b}


def weekday(day):
    return day.isoweekday() % 7


def nearest_weekday(year, month, number):
    """The date of nW, by trying the neighbours in the order of their distance."""
    length = calendar.monthrange(year, month)[1]
    if number > length:
        return None
    near = [number, number - 1, number + 1, number + 2, number - 2]
    return next(date(year, month, n) for n in near if 1 <= n <= length and weekday(date(year, month, n)) not in {0, 6})


def length_of(day):
    return calendar.monthrange(day.year, day.month)[1]


def draw_day(draw):
    kind, n = draw.randrange(9), draw.randint(1, 31)
    if kind == 0:
        return "L", lambda day: day.day == length_of(day)
    if kind == 1:
        return "LW", lambda day: day == nearest_weekday(day.year, day.month, length_of(day))
    if kind == 2:
        return f"{n}W", lambda day: day == nearest_weekday(day.year, day.month, n)
    if kind == 3:
        return f"L-{n % 28}", lambda day: day.day == length_of(day) - n % 28
    if kind in {4, 5, 6}:
        return "*", lambda _: True
    text, values = draw_values(draw, 1, 31)
    return text, lambda day: day.day in values


def draw_weekday(draw):
    kind, n, k = draw.randrange(9), draw.randint(0, 6), draw.randint(1, 5)
    if kind == 0:
        return f"{NAMES[n]}#{k}", lambda day: weekday(day) == n and (day.day - 1) // 7 == k - 1
    if kind == 1:
        return f"{n}L", lambda day: weekday(day) == n and day.day + 7 > length_of(day)
    if kind == 2:
        return "5-7", lambda day: weekday(day) in {5, 6, 0}
    if kind in {3, 4, 5, 6}:
        return "*", lambda _: True
    text, values = draw_values(draw, 0, 6)
    return text, lambda day: weekday(day) in values


def draw_hour(draw):
    if draw.random() < 0.5:
        values = sorted(draw.sample([0, 1, 2, 3, 23], draw.randint(1, 3)))
        return ",".join(map(str, values)), set(values)
    return draw_values(draw, 0, 23)


class Meaning:
    """An expression as text, and what it means, drawn together."""

    def __init__(self, draw):
        minute, self.minutes = draw_values(draw, 0, 59)
        hour, self.hours = draw_hour(draw)
        day, self.is_day = draw_day(draw)
        month, self.months = draw_values(draw, 1, 12) if draw.random() < 0.3 else ("*", set(range(1, 13)))
        week, self.is_weekday = draw_weekday(draw)
        self.text = f"{minute} {hour} {day} {month} {week}"
        self.is_wild = minute.startswith("*") or hour.startswith("*")
        self.needs_both = day.startswith("*") or week.startswith("*")

    def matches(self, wall):
        if wall.minute not in self.minutes or wall.hour not in self.hours or wall.month not in self.months:
            return False
        day = wall.date()
        found = self.is_day(day), self.is_weekday(day)
        return all(found) if self.needs_both else any(found)


def is_second_passing(local):
    """Whether a wall time was shown before, at most three hours ago."""
    if not local.fold:
        return False
    return local.replace(fold=0).utcoffset() - local.utcoffset() <= timedelta(hours=3)


def fires(meaning, start, end, zone):
    """All minutes after `start` up to `end` (aware, UTC) at which the expression fires."""
    found, at = [], start
    before = start.astimezone(zone)
    while (at := at + MINUTE) <= end:
        local = at.astimezone(zone)
        if meaning.is_wild:
            hit = meaning.matches(local)
        else:
            hit = (meaning.matches(local) and not is_second_passing(local)) or skipped(meaning, before, local)
        if hit:
            found.append(at)
        before = local
    return found


def skipped(meaning, before, local):
    """Whether a matching wall time lies between the clocks of two minutes, if they are less than three hours apart."""
    jump = local.utcoffset() - before.utcoffset()
    if not timedelta(0) < jump < timedelta(hours=3):
        return False
    wall, end = before.replace(tzinfo=None) + MINUTE, local.replace(tzinfo=None)
    while wall < end:
        if meaning.matches(wall):
            return True
        wall += MINUTE
    return False


def draw_case(draw):
    zone = draw.choice(ZONES)
    change = draw.choice(changes_of(zone))
    start = datetime.fromtimestamp((change - draw.randint(0, 2 * 86_400)) // 60 * 60, UTC)
    return Meaning(draw), zone, start, start + timedelta(days=draw.choice([1, 2, 3]))


def ours(trigger, start, end):
    found, at = [], round(start.timestamp()) * 1000
    while (at := trigger.next_ms(at)) is not None and at <= end.timestamp() * 1000:
        found.append(datetime.fromtimestamp(at / 1000, UTC))
    return found


@pytest.mark.timeout(0 if CASES > 1000 else 120)
def test_agrees_with_a_walk_over_the_minutes(capsys):
    draw = random.Random(os.environ.get("RQBEAT_SEED", "rqbeat"))  # noqa: S311 - test data
    agreed = never = 0
    while agreed < CASES:
        meaning, zone, start, end = draw_case(draw)
        try:
            trigger = CronTrigger(meaning.text, zone)
        except NeverFiresError:
            never += 1
            assert not any(
                meaning.matches(datetime(year, month, day, hour, minute))  # noqa: DTZ001 - wall times
                for year in (2023, 2024)
                for month in meaning.months
                for day in range(1, calendar.monthrange(year, month)[1] + 1)
                for hour in meaning.hours
                for minute in meaning.minutes
            )
            continue
        assert ours(trigger, start, end) == fires(meaning, start, end, ZoneInfo(zone)), (meaning.text, zone, start)
        agreed += 1
    with capsys.disabled():
        print(f"\n{agreed:,} expressions agree with the walk, {never} rightly never fire")
