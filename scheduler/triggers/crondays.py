"""Which days of the calendar a cron expression matches.

The Gregorian calendar has only 28 kinds of month: the weekday of the 1st (7) and the length (28 to 31). Whatever the
two day fields say (`L`, `LW`, `nW`, `nL`, `n#k`, one or both of them), for one kind of month it is one mask of 31 bits.
So:

- looking for the next day is a shift and a lowest bit, month by month, whatever the rule;
- "never" is exact. All 28 kinds occur (each month of 28, 30 or 31 days and each February of 29 begins on every weekday
  within 400 years), so an expression with an empty mask for all kinds of its months never fires, and any other one
  does.

Days are counted from 1970-01-01. A weekday is 0 for Sunday, as in crontab(5).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date

from scheduler.triggers.cronsyntax import FIELDS, CronFields, Mark

_EPOCH = date(1970, 1, 1).toordinal()
LAST_DAY = date(9999, 12, 31).toordinal() - _EPOCH
FIRST_DAY = 1 - _EPOCH

_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_ALL_DAYS, _ALL_MONTHS, _ALL_WEEKDAYS = (place.full for place in FIELDS[3:])
_IN_EVERY_MONTH = (2 << 28) - 2
# Bits 1, 8, 15, 22, 29: a weekday, once a week.
_WEEKLY = 1 << 1 | 1 << 8 | 1 << 15 | 1 << 22 | 1 << 29


def length_of(year: int, month: int) -> int:
    """How many days a month has."""
    if month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
        return 29
    return _LENGTHS[month]


def day_number(year: int, month: int, day: int) -> int:
    """A date as days since 1970-01-01."""
    return date(year, month, day).toordinal() - _EPOCH


def date_of(day: int) -> date:
    """The date that is so many days after 1970-01-01."""
    return date.fromordinal(day + _EPOCH)


@dataclass(frozen=True, slots=True)
class DayRule:
    """The days that month, day of month and day of week of an expression let through, in the years 1 to 9999."""

    fields: CronFields
    every_day: bool
    _masks: list[int | None] = field(compare=False, repr=False)

    def next_day(self, day: int) -> int | None:
        """The earliest matching day at or after `day`; None after the year 9999."""
        if not FIRST_DAY <= day <= LAST_DAY:
            return self.next_day(FIRST_DAY) if day < FIRST_DAY else None
        if self.every_day:
            return day
        at = date.fromordinal(day + _EPOCH)
        of_month = at.day
        bits = self._month(at.year, at.month, day - of_month) >> of_month
        return day + (bits & -bits).bit_length() - 1 if bits else self._in_later_month(at.year, at.month)

    def prev_day(self, day: int) -> int | None:
        """The latest matching day at or before `day`; None before the year 1."""
        day = min(day, LAST_DAY)
        if day < FIRST_DAY:
            return None
        if self.every_day:
            return day
        at = date.fromordinal(day + _EPOCH)
        eve = day - at.day
        bits = self._month(at.year, at.month, eve) & (2 << at.day) - 1
        return eve + _highest(bits) if bits else self._in_earlier_month(at.year, at.month)

    def count_days(self, low: int, high: int) -> int:
        """How many matching days lie in [low, high)."""
        low, high = max(low, FIRST_DAY), min(high, LAST_DAY + 1)
        if self.every_day or low >= high:
            return max(high - low, 0)
        at = date_of(low)
        year, month, eve, count = at.year, at.month, low - at.day, 0
        while eve + 1 < high:
            bits = self._month(year, month, eve) & (1 << min(high - eve, 32)) - 1
            count += (bits >> max(low - eve, 0)).bit_count()
            eve += length_of(year, month)
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return count

    def fires_in_some_month(self) -> bool:
        """Whether any kind of month has a day for it: if not, it never fires."""
        fields = self.fields
        if fields.weekday.bits and (not fields.both_days or fields.day.bits & _IN_EVERY_MONTH):
            # Every weekday is in every month, and every date up to the 28th falls on every weekday.
            return True
        return any(fields.month >> month & 1 and self._fires_in(month) for month in range(1, 13))

    def _fires_in(self, month: int) -> bool:
        for length in (29, 28) if month == 2 else (_LENGTHS[month],):
            for weekday in range(7):
                if self._mask(weekday, length):
                    return True
        return False

    def _in_later_month(self, year: int, month: int) -> int | None:
        months = self.fields.month
        while True:
            later = months >> month + 1
            year, month = (year, month + 1 + _lowest(later)) if later else (year + 1, _lowest(months))
            if year > 9999:
                return None
            eve = day_number(year, month, 1) - 1
            if bits := self._month(year, month, eve):
                return eve + _lowest(bits)

    def _in_earlier_month(self, year: int, month: int) -> int | None:
        months = self.fields.month
        while True:
            earlier = months & (1 << month) - 1
            year, month = (year, _highest(earlier)) if earlier else (year - 1, _highest(months))
            if year < 1:
                return None
            eve = day_number(year, month, 1) - 1
            if bits := self._month(year, month, eve):
                return eve + _highest(bits)

    def _month(self, year: int, month: int, eve: int) -> int:
        """The matching days of one month, bit d for the d-th; `eve` is the day before its first."""
        if not self.fields.month >> month & 1:
            return 0
        first, length = (eve + 5) % 7, length_of(year, month) if month == 2 else _LENGTHS[month]
        kind = first * 4 + length - 28
        bits = self._masks[kind]
        if bits is None:
            bits = self._masks[kind] = self._mask(first, length)
        return bits

    def _mask(self, first: int, length: int) -> int:
        """The matching days of one kind of month."""
        days, weekdays = self.fields.day, self.fields.weekday
        turned = (weekdays.bits >> first | weekdays.bits << 7 - first) & 127
        of_month, of_week = days.bits, turned * _WEEKLY
        for mark in days.marks:
            of_month |= 1 << _marked_day(mark, first, length)
        for mark in weekdays.marks:
            of_week |= 1 << _marked_day(mark, first, length)
        both = of_month & of_week if self.fields.both_days else of_month | of_week
        return both & (2 << length) - 2


def day_rule(fields: CronFields) -> DayRule:
    """The days of an expression; their masks are worked out when they are first needed."""
    return DayRule(fields, _lets_all_through(fields), [None] * 28)


def _lets_all_through(fields: CronFields) -> bool:
    if fields.month != _ALL_MONTHS:
        return False
    all_days, all_weekdays = fields.day.bits == _ALL_DAYS, fields.weekday.bits == _ALL_WEEKDAYS
    return all_days and all_weekdays if fields.both_days else all_days or all_weekdays


def _marked_day(mark: Mark, first: int, length: int) -> int:
    """The day of the month that a mark means in one kind of month; a number outside the month if there is none."""
    match mark.kind:
        case "L":
            return max(length - mark.n, 0)
        case "LW":
            return _nearest_weekday(length, first, length)
        case "W":
            return _nearest_weekday(mark.n, first, length)
        case "#":
            return 1 + (mark.n - first) % 7 + 7 * (mark.k - 1)
        case _:
            return length - (first + length - 1 - mark.n) % 7


def _nearest_weekday(day: int, first: int, length: int) -> int:
    """The Monday to Friday nearest to a day, inside the month; 0 if the month has no such day."""
    if day > length:
        return 0
    weekday = (first + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else day + 2
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _lowest(bits: int) -> int:
    return (bits & -bits).bit_length() - 1


def _highest(bits: int) -> int:
    return bits.bit_length() - 1
