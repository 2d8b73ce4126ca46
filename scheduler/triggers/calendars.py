"""Calendars: days on which work rests, and windows in which nothing may fire; shared by the triggers that keep to them.

A calendar is a value: equal ones are interchangeable, and a trigger is stored together with the calendar that it was
built with, so a changed holiday shows as a changed trigger and never silently moves what was planned.

A fire on a rest day is left out ("skip") or moved, at the same wall time, to the next or the previous business day
("next", "previous"). Fires that are moved onto each other, or onto one that is there anyhow, are one. Fires inside a
blackout window are left out, wherever they came from.

**Moving, searched by days.** A moved fire may overtake one that stays (Saturday 10:00 and Sunday 9:00 become Monday
10:00 and 9:00), so fires can't be moved one by one. But each business day has a group: itself and the rest days that
move onto it. Its fires are the union of the group's times of day, and the earliest of them after a given time is one
question to the trigger per day of the group. Days that a change of offset cuts in pieces are asked piece by piece.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from itertools import takewhile
from typing import ClassVar
from zoneinfo import ZoneInfo

from scheduler.triggers.base import (
    END_MS,
    Clipped,
    Instant,
    Instants,
    Trigger,
    TriggerType,
    Unbound,
    clipped,
    iso,
    ms_at_or_after,
    seconds_of,
    settle,
    show,
)
from scheduler.triggers.compound import check_fires, check_size, too_sparse
from scheduler.triggers.crondays import day_number
from scheduler.triggers.cronsyntax import WEEKDAYS
from scheduler.triggers.localdays import DAY_MS, Piece, day_of, first_placed_after, pieces_of, place
from scheduler.triggers.zones import Zone, find_zone
from shared.errors import TriggerError

DAYS_TRIED = 10_000
"""How many business days one search looks at: each is a question or more to the trigger."""

ROLLS = ("skip", "next", "previous")


@dataclass(frozen=True, slots=True, init=False)
class Calendar:
    """Rest days and blackout windows under a name.

    `holidays` are dates or ISO texts; `weekend` names of weekdays, `SUN` … `SAT`; `blackouts` pairs (from, to) of
    instants, from inclusive, to exclusive. Raises `TriggerError`.
    """

    name: str
    holidays: tuple[str, ...]
    weekend: tuple[str, ...]
    blackouts: tuple[tuple[float, float], ...]
    _rest: frozenset[int] = field(repr=False, compare=False)
    _weekend: frozenset[int] = field(repr=False, compare=False)

    def __init__(
        self,
        name: str,
        holidays: Iterable[date | str] = (),
        weekend: Iterable[str] = ("SAT", "SUN"),
        blackouts: Iterable[tuple[Instant, Instant]] = (),
    ) -> None:
        if not isinstance(name, str) or not 1 <= len(name) <= 200:
            raise TriggerError(f"a calendar's name has 1 to 200 characters; found {show(name)}")
        days = sorted({_holiday(day) for day in holidays})
        names = _weekend_names(weekend)
        settle(self, name=name, holidays=tuple(day.isoformat() for day in days), weekend=names)
        settle(self, blackouts=tuple(sorted(_window(window) for window in blackouts)))
        settle(self, _rest=frozenset(day_number(day.year, day.month, day.day) for day in days))
        settle(self, _weekend=frozenset(WEEKDAYS.index(each) for each in names))

    def is_business_day(self, day: int) -> bool:
        """Whether a day, counted from 1970-01-01, is one to work on."""
        return (day + 4) % 7 not in self._weekend and day not in self._rest

    def business_day(self, day: int, step: int) -> int:
        """The first business day from `day` on, going by `step` (1 or -1)."""
        while not self.is_business_day(day):
            day += step
        return day

    def skip(self, trigger: Trigger) -> BusinessDayTrigger:
        """The trigger without its fires on rest days."""
        return BusinessDayTrigger(trigger, self, "skip")

    def move_to_next(self, trigger: Trigger) -> BusinessDayTrigger:
        """The trigger with its fires on rest days moved to the next business day."""
        return BusinessDayTrigger(trigger, self, "next")

    def move_to_previous(self, trigger: Trigger) -> BusinessDayTrigger:
        """The trigger with its fires on rest days moved to the previous business day."""
        return BusinessDayTrigger(trigger, self, "previous")


@dataclass(frozen=True, slots=True)
class Rolled:
    """The instants of `base`, those on rest days left out (step 0) or moved on (1) or back (-1) to a business day."""

    base: Instants
    calendar: Calendar
    zone: Zone
    step: int

    def next_ms(self, after: int) -> int | None:
        for step, day in enumerate(self._days(after, 1)):
            found = self._next_on(day, after)
            if found is not None:
                return found
            if step == DAYS_TRIED:
                raise too_sparse()
        return None

    def prev_ms(self, before: int) -> int | None:
        for step, day in enumerate(self._days(before, -1)):
            found = self._prev_on(day, before)
            if found is not None:
                return found
            if step == DAYS_TRIED:
                raise too_sparse()
        return None

    def count_ms(self, after: int, until: int) -> int:
        last = day_of(self.zone, until) + 1
        days = takewhile(lambda day: day <= last, self._days(after, 1))
        return sum(self._count_on(day, after, until) for day in days)

    def _days(self, at: int, direction: int) -> Iterator[int]:
        """The business days from `at` on, forward or backward, to which fires of `base` may belong.

        The first may be a day too early: a gap at midnight puts a day's last wall times on the next day.
        """
        day = self.calendar.business_day(day_of(self.zone, at) - direction, direction)
        while (source := self._source_beyond(day, direction)) is not None:
            yield day
            nearest = self.calendar.business_day(day + direction, direction)
            target = self.calendar.business_day(day_of(self.zone, source), self.step or direction)
            day = max(target, nearest) if direction > 0 else min(target, nearest)
        yield day

    def _source_beyond(self, day: int, direction: int) -> int | None:
        """The nearest fire of `base` outside of a business day's group."""
        group = self._group(day)
        if direction > 0:
            return self.base.next_ms(place(self.zone, group.stop * DAY_MS) - 1)
        return self.base.prev_ms(place(self.zone, group.start * DAY_MS))

    def _group(self, day: int) -> range:
        """The days whose fires belong to a business day."""
        if self.step > 0:
            return range(self.calendar.business_day(day - 1, -1) + 1, day + 1)
        return range(day, self.calendar.business_day(day + 1, 1) if self.step else day + 1)

    def _sources(self, day: int) -> Iterator[tuple[Piece, int]]:
        """The pieces of the days of a group, each with how far its wall times are moved, in ms."""
        for source in self._group(day):
            for piece in pieces_of(self.zone, source):
                yield piece, (day - source) * DAY_MS

    def _next_on(self, day: int, after: int) -> int | None:
        shown = first_placed_after(self.zone, after)
        found = []
        for piece, shift in self._sources(day):
            low = shown - shift - piece.offset if shift else after + 1
            at = self.base.next_ms(max(piece.start, low) - 1)
            if at is not None and at < piece.end:
                found.append(self._moved(at, piece, shift))
        return min(found, default=None)

    def _prev_on(self, day: int, before: int) -> int | None:
        shown = first_placed_after(self.zone, before - 1)
        found = []
        for piece, shift in self._sources(day):
            high = shown - shift - piece.offset if shift else before
            at = self.base.prev_ms(min(piece.end, high))
            if at is not None and at >= piece.start:
                found.append(self._moved(at, piece, shift))
        return max(found, default=None)

    def _moved(self, at: int, piece: Piece, shift: int) -> int:
        return place(self.zone, at + piece.offset + shift) if shift else at

    def _count_on(self, day: int, after: int, until: int) -> int:
        sources = list(self._sources(day))
        if not any(shift and self.base.count_ms(piece.start - 1, piece.end - 1) for piece, shift in sources):
            own = (piece for piece, shift in sources if not shift)
            spans = ((max(after, piece.start - 1), min(until, piece.end - 1)) for piece in own)
            return sum(self.base.count_ms(low, high) for low, high in spans if low < high)
        count, at = 0, self._next_on(day, after)
        while at is not None and at <= until:
            count, at = count + 1, self._next_on(day, at)
        return count


@dataclass(frozen=True, slots=True)
class Outside:
    """The instants of `base` outside of windows [start, end), which are disjoint and ascending."""

    base: Instants
    windows: tuple[tuple[int, int], ...]

    def next_ms(self, after: int) -> int | None:
        at = self.base.next_ms(after)
        while at is not None and (window := self._window_of(at)):
            at = self.base.next_ms(window[1] - 1)
        return at

    def prev_ms(self, before: int) -> int | None:
        at = self.base.prev_ms(before)
        while at is not None and (window := self._window_of(at)):
            at = self.base.prev_ms(window[0])
        return at

    def count_ms(self, after: int, until: int) -> int:
        spans = ((max(after, start - 1), min(until, end - 1)) for start, end in self.windows)
        hidden = sum(self.base.count_ms(low, high) for low, high in spans if low < high)
        return self.base.count_ms(after, until) - hidden

    def _window_of(self, at: int) -> tuple[int, int] | None:
        place = bisect_right(self.windows, (at, END_MS))
        return self.windows[place - 1] if place and at < self.windows[place - 1][1] else None


@dataclass(frozen=True, slots=True, init=False)
class BusinessDayTrigger(Trigger):
    """Fires as `trigger` does, but keeps to a calendar: `roll` is "skip", "next" or "previous".

    Days are those of `timezone`, by default the trigger's own zone (UTC if it has none). `start` is inclusive, `end`
    exclusive; both bound the fires after they were moved. Raises `TriggerError`, `NeverFiresError`,
    `TriggerTooSparseError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.BUSINESS_DAY

    trigger: Trigger
    calendar: Calendar
    roll: str
    timezone: str | None
    start: float | None
    end: float | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(
        self,
        trigger: Trigger,
        calendar: Calendar,
        roll: str = "skip",
        *,
        timezone: str | ZoneInfo | None = None,
        start: Instant | None = None,
        end: Instant | None = None,
    ) -> None:
        if not isinstance(trigger, Trigger) or not isinstance(calendar, Calendar):
            raise TriggerError(f"expected a trigger and a Calendar; found {show(trigger)} and {show(calendar)}")
        check_size([trigger])
        if roll not in ROLLS:
            raise TriggerError(f"roll: found {show(roll)}, expected one of {', '.join(ROLLS)}")
        zone = find_zone(trigger.timezone if timezone is None else timezone)
        settle(self, trigger=trigger, calendar=calendar, roll=roll, timezone=None if zone.info is None else zone.name)
        settle(self, start=seconds_of(start), end=seconds_of(end))
        settle(self, instants=clipped(_rolled(trigger.instants, calendar, zone, roll), start, end))
        check_fires(self)

    def parts(self) -> tuple[Trigger, ...]:
        return (self.trigger,)

    def bound_to(self, schedule_id: str) -> BusinessDayTrigger:
        bound = self.trigger.bound_to(schedule_id)
        if bound is self.trigger:
            return self
        return BusinessDayTrigger(
            bound, self.calendar, self.roll, timezone=self.timezone, start=self.start, end=self.end
        )

    def describe(self) -> str:
        what = "skips" if self.roll == "skip" else f"to the {self.roll} business day of"
        return f"{self.trigger.describe()}, {what} {self.calendar.name}"


def _rolled(base: Instants, calendar: Calendar, zone: Zone, roll: str) -> Instants:
    if isinstance(base, Unbound):
        return base
    rolled = Rolled(base, calendar, zone, {"skip": 0, "next": 1, "previous": -1}[roll])
    windows = _disjoint(
        (ms_at_or_after(start, "blackout"), ms_at_or_after(end, "blackout")) for start, end in calendar.blackouts
    )
    return Clipped(Outside(rolled, windows) if windows else rolled, 0, END_MS)


def _disjoint(windows: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(windows):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _holiday(day: date | str) -> date:
    try:
        return date.fromisoformat(day) if isinstance(day, str) else date(day.year, day.month, day.day)
    except (ValueError, AttributeError):
        raise TriggerError(f"a holiday is a date such as 2026-12-25; found {show(day)}") from None


def _weekend_names(weekend: Iterable[str]) -> tuple[str, ...]:
    given = {str(name).upper() for name in weekend}
    unknown = given - set(WEEKDAYS)
    if unknown or len(given) == 7:
        raise TriggerError(f"a weekend is some of {', '.join(WEEKDAYS)}, not all; found {show(sorted(given))}")
    return tuple(name for name in WEEKDAYS if name in given)


def _window(window: tuple[Instant, Instant]) -> tuple[float, float]:
    start, end = (ms_at_or_after(at, "blackout") for at in window)
    if start >= end:
        raise TriggerError(f"a blackout from {iso(start)} must end after it begins; found {iso(end)}")
    return start / 1000, end / 1000
