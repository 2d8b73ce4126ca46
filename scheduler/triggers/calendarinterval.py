"""Every so many days, weeks, months or years on the wall clock: what an interval of elapsed seconds can't say.

The n-th date is counted from the first one, never from the one before, so a monthly trigger that starts on the 31st
comes back to the 31st after a short month. Where a month has no such day, `short_month` decides: its last day ("last"),
or no fire at all ("skip", as cron does). Clock changes are treated as for a fixed cron expression.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, time
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduler.triggers.base import Instant, Instants, Trigger, TriggerType, clipped, seconds_of, settle, show
from scheduler.triggers.crondays import FIRST_DAY, LAST_DAY, date_of, day_number, length_of
from scheduler.triggers.wall import DAY, check_policy, place_rule
from scheduler.triggers.zones import find_zone
from shared.errors import TriggerError

DAYS_OF = {"day": 1, "week": 7}
MONTHS_OF = {"month": 1, "year": 12}


@dataclass(frozen=True, slots=True)
class DayGrid:
    """Wall times `time` (s of the day) on every `period`-th day from `first` on (a `WallRule`)."""

    first: int
    period: int
    time: int

    def next_wall(self, wall: int) -> int | None:
        turn = max(-((self.first * DAY + self.time - wall) // (self.period * DAY)), 0)
        day = self.first + turn * self.period
        return day * DAY + self.time if day <= LAST_DAY else None

    def prev_wall(self, wall: int) -> int | None:
        turn = (wall - self.time - self.first * DAY) // (self.period * DAY)
        return (self.first + turn * self.period) * DAY + self.time if turn >= 0 else None

    def count_wall(self, low: int, high: int) -> int:
        return self._turns_before(high) - self._turns_before(low)

    def _turns_before(self, wall: int) -> int:
        wall = min(wall, (LAST_DAY + 1) * DAY)
        return max(-((self.first * DAY + self.time - wall) // (self.period * DAY)), 0)


@dataclass(frozen=True, slots=True)
class MonthGrid:
    """Wall times `time` on the day of `first` in every `period`-th month from its own on (a `WallRule`).

    `skips` says what becomes of a month without that day: no fire, or its last day.
    """

    first: date
    period: int
    time: int
    skips: bool

    def next_wall(self, wall: int) -> int | None:
        turn = max(self._turn_of(wall), 0)
        while (month := self._month(turn)) <= _LAST_MONTH:
            found = self._wall_in(month)
            if found is not None and found >= wall:
                return found
            turn += 1
        return None

    def prev_wall(self, wall: int) -> int | None:
        turn = self._turn_of(wall)
        while turn >= 0:
            found = self._wall_in(self._month(turn))
            if found is not None and found <= wall:
                return found
            turn -= 1
        return None

    def count_wall(self, low: int, high: int) -> int:
        turns = range(max(self._turn_of(low), 0), self._turn_of(high) + 1)
        walls = (self._wall_in(self._month(turn)) for turn in turns)
        return sum(wall is not None and low <= wall < high for wall in walls)

    def _turn_of(self, wall: int) -> int:
        """The latest turn whose month is not after that of a wall time."""
        at = date_of(min(max(wall // DAY, FIRST_DAY), LAST_DAY))
        return (_index(at) - _index(self.first)) // self.period

    def _month(self, turn: int) -> int:
        return _index(self.first) + turn * self.period

    def _wall_in(self, month: int) -> int | None:
        year, place = divmod(month, 12)
        length = length_of(year, place + 1)
        if self.skips and self.first.day > length:
            return None
        return day_number(year, place + 1, min(self.first.day, length)) * DAY + self.time


@dataclass(frozen=True, slots=True, init=False)
class CalendarIntervalTrigger(Trigger):
    """Fires every `every` units ("day", "week", "month" or "year") at a wall time, first on the date `on`.

    `at` is a naive `time` or text such as "09:00" (whole seconds); `on` a `date` or ISO text. `short_month` is "last"
    or "skip". `gap` and `repeat` are as in `CronTrigger`. `start` is inclusive, `end` exclusive. Raises `TriggerError`,
    `UnknownZoneError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.CALENDAR_INTERVAL

    every: int
    unit: str
    on: str
    at: str
    timezone: str | None
    short_month: str
    gap: str
    repeat: str
    start: float | None
    end: float | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(  # noqa: PLR0913 - one name per choice, all but the first three by keyword
        self,
        every: int,
        unit: str,
        on: date | str,
        *,
        at: time | str = "00:00",
        timezone: str | ZoneInfo | None = None,
        short_month: str = "last",
        gap: str = "next",
        repeat: str = "first",
        start: Instant | None = None,
        end: Instant | None = None,
    ) -> None:
        first, wall_time, zone = _date(on), _time(at), find_zone(timezone)
        _check_period(every, unit, short_month)
        check_policy(gap, repeat)
        settle(self, every=every, unit=unit, on=first.isoformat(), at=wall_time.isoformat(), short_month=short_month)
        settle(self, timezone=None if timezone is None else zone.name, gap=gap, repeat=repeat)
        settle(self, start=seconds_of(start), end=seconds_of(end))
        rule = _grid(every, unit, first, wall_time, short_month)
        settle(self, instants=clipped(place_rule(rule, zone, gap, repeat, wild=False), start, end))

    def describe(self) -> str:
        count = f"every {self.unit}" if self.every == 1 else f"every {self.every} {self.unit}s"
        return f"{count} from {self.on} at {self.at} {self.timezone or 'UTC'}"


def _index(day: date) -> int:
    return day.year * 12 + day.month - 1


_LAST_MONTH = _index(date.max)


def _grid(every: int, unit: str, first: date, at: time, short_month: str) -> DayGrid | MonthGrid:
    wall_time = at.hour * 3600 + at.minute * 60 + at.second
    if unit in DAYS_OF:
        return DayGrid(day_number(first.year, first.month, first.day), every * DAYS_OF[unit], wall_time)
    return MonthGrid(first, every * MONTHS_OF[unit], wall_time, short_month == "skip")


def _check_period(every: int, unit: str, short_month: str) -> None:
    if isinstance(every, bool) or not isinstance(every, int) or not 1 <= every <= 100_000:
        raise TriggerError(f"every: found {show(every)}, expected a whole number from 1 to 100,000")
    if unit not in {*DAYS_OF, *MONTHS_OF}:
        raise TriggerError(f"unit: found {show(unit)}, expected one of {', '.join([*DAYS_OF, *MONTHS_OF])}")
    if short_month not in {"last", "skip"}:
        raise TriggerError(f"short_month: found {show(short_month)}, expected 'last' or 'skip'")


def _date(on: date | str) -> date:
    try:
        first = date.fromisoformat(on) if isinstance(on, str) else date(on.year, on.month, on.day)
    except (ValueError, AttributeError):
        raise TriggerError(f"on: found {show(on)}, expected a date such as 2026-01-31") from None
    if first.year < 1970:
        raise TriggerError(f"on: {first.isoformat()} is before 1970")
    return first


def _time(at: time | str) -> time:
    try:
        found = time.fromisoformat(at) if isinstance(at, str) else at
        whole = found.microsecond == 0 and found.tzinfo is None
    except (ValueError, AttributeError):
        raise TriggerError(f"at: found {show(at)}, expected a wall time such as 09:00") from None
    if not whole:
        raise TriggerError(f"at: {show(at)} must be whole seconds without a zone: the zone is timezone=…")
    return found
