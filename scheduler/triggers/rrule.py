"""RFC 5545 recurrence rules, by python-dateutil (the extra `rrule`), which is loaded when the first rule is built.

dateutil yields naive wall times and always counts from the rule's first one; what is ours is everything around it: a
zone, the same treatment of clock changes as for a fixed cron expression, and a search that does not begin in the past.
A rule without COUNT repeats from any of its own periods, so it is begun anew at the one that is looked at. A rule with
COUNT is written out once. Exclusions are not part of a rule: subtract another trigger.
"""

from __future__ import annotations

import importlib
import re
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

from scheduler.triggers.base import (
    Instant,
    Instants,
    Trigger,
    TriggerType,
    clipped,
    seconds_of,
    settle,
    show,
    whole_ms_of,
)
from scheduler.triggers.wall import DAY, check_policy, place_rule
from scheduler.triggers.zones import Zone, find_zone
from shared.errors import NeverFiresError, TriggerError

LONGEST = 1000
"""The longest rule, in characters."""

LARGEST = 10_000
"""The largest COUNT and INTERVAL of a rule."""

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - the origin of wall time, which has no zone
_LAST = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001

# The length of a period in seconds, for the frequencies whose periods are all of one length; in months for the others.
_SECONDS = {"WEEKLY": 7 * DAY, "DAILY": DAY, "HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_MONTHS = {"YEARLY": 12, "MONTHLY": 1}

_SHAPE = re.compile(r"[A-Z]+=[A-Z0-9,+-]+(?:;[A-Z]+=[A-Z0-9,+-]+)*")
_UNTIL = re.compile(r";?UNTIL=([0-9]{8})(T[0-9]{6})?(Z)?")


@dataclass(frozen=True, slots=True)
class Listed:
    """Wall times written out, ascending (a `WallRule`)."""

    walls: tuple[int, ...]

    def next_wall(self, wall: int) -> int | None:
        place = bisect_left(self.walls, wall)
        return self.walls[place] if place < len(self.walls) else None

    def prev_wall(self, wall: int) -> int | None:
        place = bisect_right(self.walls, wall)
        return self.walls[place - 1] if place else None

    def count_wall(self, low: int, high: int) -> int:
        return bisect_left(self.walls, high) - bisect_left(self.walls, low)


@dataclass(frozen=True, slots=True)
class Recurring:
    """The wall times from `first` to `last` of a dateutil rule without COUNT (a `WallRule`).

    A turn of the rule, its period times its interval, is `seconds` or `months` long; the other is 0.
    """

    rule: Any
    first: int
    last: int
    seconds: int
    months: int

    def next_wall(self, wall: int) -> int | None:
        return next(self.walk(wall, self.last), None)

    def prev_wall(self, wall: int) -> int | None:
        high = min(wall, self.last)
        reach = self._turn()
        while high >= self.first:
            latest = deque(self.walk(high - reach, high), maxlen=1)
            if latest:
                return latest[0]
            high, reach = high - reach - 1, reach * 4
        return None

    def count_wall(self, low: int, high: int) -> int:
        return sum(1 for _ in self.walk(low, high - 1))

    def _turn(self) -> int:
        return self.seconds or self.months * 31 * DAY

    def walk(self, low: int, high: int) -> Iterator[int]:
        """The wall times in [low, high]."""
        low, high = max(low, self.first), min(high, self.last)
        if low > high:
            return
        rule = self.rule.replace(dtstart=self._beginning(low), until=_wall_datetime(high))
        for at in rule:
            wall = _wall_of(at)
            if wall >= low:
                yield wall

    def _beginning(self, low: int) -> datetime:
        """The beginning of a turn that is not after `low`."""
        first = _wall_datetime(self.first)
        if self.seconds:
            return _wall_datetime(self.first + (low - self.first) // self.seconds * self.seconds)
        at = _wall_datetime(low)
        passed = (at.year - first.year) * 12 + at.month - first.month
        # A year's turn begins in January: its rule may name months before that of the first wall time.
        start = first.year * 12 + (0 if self.months % 12 == 0 else first.month - 1)
        year, month = divmod(start + passed // self.months * self.months, 12)
        return first.replace(year=year, month=month + 1, day=1)


@dataclass(frozen=True, slots=True, init=False)
class RRuleTrigger(Trigger):
    """Fires by an RFC 5545 rule, such as "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=9", on the wall clock of a zone.

    `start` is the rule's DTSTART (inclusive, whole seconds; the default is 1970-01-01 00:00 on the wall): what the rule
    leaves open, such as the time of day, is taken from it. `end` is exclusive. `gap` and `repeat` are as in
    `CronTrigger`. Raises `TriggerError`, also when python-dateutil is not installed, `NeverFiresError`,
    `UnknownZoneError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.RRULE

    rule: str
    start: float | None
    timezone: str | None
    gap: str
    repeat: str
    end: float | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(
        self,
        rule: str,
        start: Instant | None = None,
        timezone: str | ZoneInfo | None = None,
        *,
        gap: str = "next",
        repeat: str = "first",
        end: Instant | None = None,
    ) -> None:
        zone = find_zone(timezone)
        check_policy(gap, repeat)
        settle(self, rule=rule, start=seconds_of(start), timezone=None if timezone is None else zone.name)
        settle(self, gap=gap, repeat=repeat, end=seconds_of(end))
        walls = _wall_rule(rule, _first_wall(start, zone), zone)
        settle(self, instants=clipped(place_rule(walls, zone, gap, repeat, wild=False), None, end))

    def describe(self) -> str:
        return f"{self.rule} {self.timezone or 'UTC'}"


def _wall_rule(text: str, first: int, zone: Zone) -> Listed | Recurring:
    until, body = _split_until(_checked(text), zone)
    parts = dict(part.split("=") for part in body.split(";"))
    count, interval = _number(parts, "COUNT"), _number(parts, "INTERVAL") or 1
    rule = _parse({name: value for name, value in parts.items() if name != "COUNT"}, first, text)
    walls = _recurring(rule, parts, first, until, interval)
    if not _has_days(parts, first, text) or walls.next_wall(first) is None:
        raise NeverFiresError(f"rule {show(text)} never fires")
    return Listed(tuple(islice(walls.walk(first, until), count))) if count else walls


def _has_days(parts: dict[str, str], first: int, text: str) -> bool:
    """Whether the rule's days exist at all.

    dateutil looks for the 30 February of a daily rule day by day up to the year 9999. Of a yearly one it does so 20
    times faster.
    """
    days = {name: value for name, value in parts.items() if name in {"BYMONTH", "BYMONTHDAY", "BYDAY", "BYYEARDAY"}}
    return (
        parts.get("FREQ") not in _SECONDS
        or next(iter(_parse({"FREQ": "YEARLY"} | days, first, text)), None) is not None
    )


def _number(parts: dict[str, str], name: str) -> int:
    text = parts.get(name)
    if text is not None and not (text.isdigit() and 1 <= int(text) <= LARGEST):
        raise TriggerError(f"rule: {name}={text}, expected a number from 1 to {LARGEST:,}")
    return int(text or 0)


def _checked(text: str) -> str:
    if not isinstance(text, str) or len(text) > LONGEST:
        raise TriggerError(f"rule: found {show(text)}, expected at most {LONGEST} characters of RFC 5545")
    body = text.strip().upper().removeprefix("RRULE:")
    names = re.findall(r"([A-Z]+)=", body)
    if not _SHAPE.fullmatch(body) or "DTSTART" in body or len(set(names)) < len(names):
        raise TriggerError(f"rule: found {show(text)}, expected NAME=VALUE;… of RFC 5545, its first time as start=…")
    return body


def _split_until(body: str, zone: Zone) -> tuple[int, str]:
    """The last wall time that `UNTIL` lets through, and the rule without it: dateutil knows no zones here."""
    found = _UNTIL.search(body)
    if found is None:
        return _wall_of(_LAST), body
    rest = (body[: found.start()] + body[found.end() :]).strip(";")
    try:
        wall = _wall_of(datetime.strptime(found[1] + (found[2] or "T000000"), "%Y%m%dT%H%M%S"))  # noqa: DTZ007 - a wall time
    except ValueError:
        raise TriggerError(f"rule: {found[0].strip(';')} is no date and time") from None
    return wall + (zone.stretch_at(wall).offset if found[3] else 0), rest


def _parse(parts: dict[str, str], first: int, text: str) -> Any:
    try:
        module = importlib.import_module("dateutil.rrule")
    except ModuleNotFoundError:
        raise TriggerError("RFC 5545 rules need python-dateutil; cure: pip install 'rqbeat[rrule]'") from None
    try:
        body = ";".join(f"{name}={value}" for name, value in parts.items())
        return module.rrulestr(body, dtstart=_wall_datetime(first))
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise TriggerError(f"rule {show(text)} is not in RFC 5545: {error}") from None


def _recurring(rule: Any, parts: dict[str, str], first: int, until: int, interval: int) -> Recurring:
    # What dateutil takes from the first wall time must stay when the rule is begun anew at another.
    begun = _wall_datetime(first)
    settled: dict[str, Any] = {"byhour": begun.hour, "byminute": begun.minute, "bysecond": begun.second}
    frequency = parts["FREQ"]
    if frequency in {"HOURLY", "MINUTELY", "SECONDLY"}:
        settled = {}
    if not any(name in parts for name in ("BYWEEKNO", "BYYEARDAY", "BYMONTHDAY", "BYDAY", "BYEASTER")):
        settled |= _day_of(frequency, parts, begun)
    settled = {name: value for name, value in settled.items() if name.upper() not in parts}
    return Recurring(
        rule.replace(**settled) if settled else rule,
        first,
        until,
        _SECONDS.get(frequency, 0) * interval,
        _MONTHS.get(frequency, 0) * interval,
    )


def _day_of(frequency: str, parts: dict[str, str], begun: datetime) -> dict[str, Any]:
    """The day that a rule without any takes from its first wall time."""
    if frequency == "YEARLY":
        return {"bymonthday": begun.day} | ({} if "BYMONTH" in parts else {"bymonth": begun.month})
    return {"bymonthday": begun.day} if frequency == "MONTHLY" else {}


def _first_wall(start: Instant | None, zone: Zone) -> int:
    if start is None:
        return 0
    second, rest = divmod(whole_ms_of(start, "start"), 1000)
    if rest:
        raise TriggerError("start: a rule begins at a whole second")
    return second + zone.stretch_at(second).offset


def _wall_of(at: datetime) -> int:
    return round((at - _EPOCH).total_seconds())


def _wall_datetime(wall: int) -> datetime:
    return min(_EPOCH + timedelta(seconds=min(wall, _wall_of(_LAST))), _LAST)
