"""Cron: from an expression to wall times, and from wall times to instants.

`CronRule` yields wall times by arithmetic on masks: the times of a day are one mask of 1,440 bits (bit m: minute m of
the day), the seconds of a minute one of 60, the days of a month one of 31 (see `crondays`). The next time is a shift
and a lowest bit in each, the latest one before is a highest bit, and how many lie between is a count of bits.
`wall.Placed` lays them onto the zone.

An expression is parsed once: equal ones share one rule, from a bounded cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduler.triggers.base import (
    Instant,
    Instants,
    Trigger,
    TriggerType,
    Unbound,
    clipped,
    ms_at_or_before,
    seconds_of,
    settle,
    show,
)
from scheduler.triggers.crondays import DayRule, day_rule
from scheduler.triggers.cronsyntax import FIELDS, CronFields, parse
from scheduler.triggers.wall import DAY, check_policy, place_rule
from scheduler.triggers.zones import find_zone
from shared.errors import NeverFiresError, TriggerError

_ALL_HOURS = FIELDS[2].full
_EVERY_HOUR = sum(1 << 60 * hour for hour in range(24))


@dataclass(frozen=True, slots=True)
class CronRule:
    """The wall times of an expression (a `WallRule`). `first` and `last` are those of a day, in s."""

    fields: CronFields
    days: DayRule
    minutes: int
    first: int
    last: int

    def next_wall(self, wall: int) -> int | None:
        day, rest = divmod(wall, DAY)
        if rest > self.last:
            day, rest = day + 1, 0
        found = self.days.next_day(day)
        if found == day:
            return day * DAY + self._time_from(rest)
        return None if found is None else found * DAY + self.first

    def prev_wall(self, wall: int) -> int | None:
        day, rest = divmod(wall, DAY)
        if rest < self.first:
            day, rest = day - 1, DAY - 1
        found = self.days.prev_day(day)
        if found == day:
            return day * DAY + self._time_until(rest)
        return None if found is None else found * DAY + self.last

    def count_wall(self, low: int, high: int) -> int:
        (first, start), (last, stop) = divmod(low, DAY), divmod(high, DAY)
        count = self.days.count_days(first, last) * self._times_before(DAY)
        if start and self.days.next_day(first) == first:
            count -= self._times_before(start)
        if stop and self.days.next_day(last) == last:
            count += self._times_before(stop)
        return count

    def _time_from(self, rest: int) -> int:
        """The earliest time of day at or after `rest`, in s; there is one."""
        minute, second = divmod(rest, 60)
        seconds, later = self.fields.second, self.minutes >> minute
        if later & 1 and (left := seconds >> second):
            return rest + (left & -left).bit_length() - 1
        later &= -2
        return (minute + (later & -later).bit_length() - 1) * 60 + (seconds & -seconds).bit_length() - 1

    def _time_until(self, rest: int) -> int:
        """The latest time of day at or before `rest`, in s; there is one."""
        minute, second = divmod(rest, 60)
        seconds = self.fields.second
        if self.minutes >> minute & 1 and (left := seconds & (2 << second) - 1):
            return minute * 60 + left.bit_length() - 1
        earlier = self.minutes & (1 << minute) - 1
        return (earlier.bit_length() - 1) * 60 + seconds.bit_length() - 1

    def _times_before(self, rest: int) -> int:
        """How many times of day are earlier than `rest`."""
        minute, second = divmod(rest, 60)
        seconds = self.fields.second
        whole = (self.minutes & (1 << minute) - 1).bit_count() * seconds.bit_count()
        return whole + (seconds & (1 << second) - 1).bit_count() * (self.minutes >> minute & 1)


def build_rule(text: str, seconds: bool = False, schedule_id: str | None = None) -> CronRule:
    """The rule of an expression, made anew. Raises `CronSyntaxError`, `NeverFiresError`."""
    fields = parse(text, seconds=seconds, schedule_id=schedule_id)
    days = day_rule(fields)
    if not days.fires_in_some_month():
        raise NeverFiresError(f"cron expression {show(text)} never fires: no month has such a day")
    minutes, second = _minutes_of_day(fields), fields.second
    first = (minutes & -minutes).bit_length() * 60 + (second & -second).bit_length() - 61
    return CronRule(fields, days, minutes, first, minutes.bit_length() * 60 + second.bit_length() - 61)


cron_rule = lru_cache(maxsize=4096)(build_rule)
"""`build_rule`, with the latest 4,096 expressions kept."""


class CronParser:
    """A cron expression, to ask for its next fire in any zone.

    `seconds=True` allows six fields, seconds first. `id` is the schedule's id, which `H` needs. Raises
    `CronSyntaxError` with the field and the position, and `NeverFiresError`.
    """

    __slots__ = ("_rule", "text")

    def __init__(self, text: str, *, seconds: bool = False, id: str | None = None) -> None:  # noqa: A002 - the public name
        self._rule = _rule_of(text, seconds, id)
        self.text = text
        if id is None and self._rule.fields.is_hashed:
            raise TriggerError(_unbound(text))

    @property
    def fields(self) -> CronFields:
        """The parsed fields."""
        return self._rule.fields

    def next(self, after: Instant, tz: str | ZoneInfo | None = None) -> float | None:
        """The earliest fire later than `after` on the wall clock of `tz` (None: UTC), epoch s; None = never again."""
        placed = place_rule(self._rule, find_zone(tz), "next", "first", wild=self._rule.fields.wild)
        found = placed.next_ms(ms_at_or_before(after))
        return None if found is None else found / 1000

    def __repr__(self) -> str:
        return f"CronParser({self.text!r})"


@dataclass(frozen=True, slots=True, init=False)
class CronTrigger(Trigger):
    """Fires by a cron expression on the wall clock of a zone (an IANA name; None is UTC, never the host's zone).

    `seconds=True` allows six fields, seconds first. `gap` ("next", "shift", "skip") and `repeat` ("first", "last",
    "both") say what becomes of a fixed time that a clock change skips or repeats. `start` is inclusive, `end`
    exclusive. `id` is the schedule's id, which `H` needs; `schedule()` sets it by `bound_to`, and until then an
    expression with `H` can't be asked. Raises `CronSyntaxError`, `NeverFiresError`, `UnknownZoneError`, `TriggerError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.CRON

    expression: str
    timezone: str | None
    seconds: bool
    gap: str
    repeat: str
    start: float | None
    end: float | None
    id: str | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(
        self,
        expression: str,
        timezone: str | ZoneInfo | None = None,
        *,
        seconds: bool = False,
        gap: str = "next",
        repeat: str = "first",
        start: Instant | None = None,
        end: Instant | None = None,
        id: str | None = None,  # noqa: A002 - the public name
    ) -> None:
        rule, zone = _rule_of(expression, seconds, id), find_zone(timezone)
        check_policy(gap, repeat)
        is_hashed = rule.fields.is_hashed
        placed = (
            Unbound(_unbound(expression))
            if is_hashed and id is None
            else place_rule(rule, zone, gap, repeat, wild=rule.fields.wild)
        )
        settle(self, expression=expression, timezone=None if timezone is None else zone.name, seconds=seconds)
        settle(self, gap=gap, repeat=repeat, start=seconds_of(start), end=seconds_of(end), id=id if is_hashed else None)
        settle(self, instants=clipped(placed, start, end))

    @property
    def fields(self) -> CronFields:
        """The parsed fields; an `H` without an id stands for every value."""
        return _rule_of(self.expression, self.seconds, self.id).fields

    def bound_to(self, schedule_id: str) -> CronTrigger:
        if not self.fields.is_hashed or self.id == schedule_id:
            return self
        return CronTrigger(
            self.expression,
            self.timezone,
            seconds=self.seconds,
            gap=self.gap,
            repeat=self.repeat,
            start=self.start,
            end=self.end,
            id=schedule_id,
        )

    def describe(self) -> str:
        return f"{self.expression.strip()} {self.timezone or 'UTC'}"


def _rule_of(text: str, seconds: bool, schedule_id: str | None) -> CronRule:
    if not isinstance(text, str):
        raise TriggerError(f"a cron expression is text; found {show(text)}")
    # The id matters to `H` alone: without one, schedules share their rule.
    return cron_rule(text, bool(seconds), schedule_id if "H" in text or "h" in text else None)


def _unbound(text: str) -> str:
    return f"cron expression {show(text)}: H stands for a value hashed from the schedule's id; pass id=…"


def _minutes_of_day(fields: CronFields) -> int:
    hours, minutes = fields.hour, 0
    if hours == _ALL_HOURS:
        return fields.minute * _EVERY_HOUR
    while hours:
        hour = hours.bit_length() - 1
        minutes |= fields.minute << 60 * hour
        hours ^= 1 << hour
    return minutes
