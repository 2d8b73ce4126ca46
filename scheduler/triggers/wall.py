"""From wall-clock times to instants: one treatment of clock changes for every trigger that speaks of local time.

A `WallRule` yields wall times on an axis without zones: seconds since 1970-01-01 00:00 *on the wall*. `Placed` lays
such a rule onto a zone, stretch by stretch (see `zones`). Within a stretch, instant = wall time - offset, and that is
nearly all; only at the edges of a stretch do the two classes of cron differ (crontab(5) and the behaviour of Debian's
cron):

- **wild** rules follow the wall clock itself: every instant whose wall clock matches, so nothing in a gap, both
  passings of a repeated hour;
- **fixed** rules promise once a day. Wall times that a gap skipped fire once at its end (`gap="next"`), as far after it
  as they lay in it (`"shift"`), or not (`"skip"`). A repeated time fires at its first passing, its last, or both.

The promise to fixed rules is kept for changes that people make to clocks, under three hours forward and up to three
back. A larger one is a country that moved across the date line: the day that never was does not fire.

A search steps on wall time and then checks one stretch. It looks closer only within three hours of an edge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from scheduler.triggers.base import END_MS, FIRST_MS, Instants, show
from scheduler.triggers.zones import Stretch, Zone
from shared.errors import TriggerError

DAY = 86_400
FIRST = FIRST_MS // 1000
END = END_MS // 1000

_NEAR = 3 * 3600
# Longer than any two offsets differ: a wall time never lies further than this from the instant of the same number.
REACH = 2 * DAY

GAPS = ("next", "shift", "skip")
REPEATS = ("first", "last", "both")


class WallRule(Protocol):
    """A set of wall times, in s since 1970-01-01 00:00 on the wall, in the years 1 to 9999."""

    def next_wall(self, wall: int) -> int | None:
        """The earliest wall time at or after `wall`."""

    def prev_wall(self, wall: int) -> int | None:
        """The latest wall time at or before `wall`."""

    def count_wall(self, low: int, high: int) -> int:
        """How many wall times lie in [low, high)."""


@dataclass(frozen=True, slots=True)
class Unmoved:
    """The instants of a wall rule where the wall clock shows UTC."""

    rule: WallRule

    def next_ms(self, after: int) -> int | None:
        wall = self.rule.next_wall(after // 1000 + 1)
        return None if wall is None else wall * 1000

    def prev_ms(self, before: int) -> int | None:
        wall = self.rule.prev_wall((before - 1) // 1000)
        return None if wall is None else wall * 1000

    def count_ms(self, after: int, until: int) -> int:
        return self.rule.count_wall(after // 1000 + 1, until // 1000 + 1)


@dataclass(frozen=True, slots=True)
class Placed:
    """The instants of a wall rule in a zone."""

    rule: WallRule
    zone: Zone
    gap: str
    repeat: str
    wild: bool

    def next_ms(self, after: int) -> int | None:
        second = max(after // 1000 + 1, FIRST)
        while second < END:
            stretch = self.zone.stretch_at(second)
            start, end, offset, _, _ = stretch
            wall = self.rule.next_wall(second + offset)
            at = END if wall is None else wall - offset
            if start + _NEAR > second or end > at >= end - _NEAR:
                at = self._first_in(stretch, second)
            if at < end:
                return at * 1000 if at < END else None
            second = _beyond(stretch, second, wall)
        return None

    def prev_ms(self, before: int) -> int | None:
        second = min((before - 1) // 1000, END - 1)
        while second >= FIRST:
            stretch = self.zone.stretch_at(second)
            wall = self.rule.prev_wall(second + stretch.offset)
            at = FIRST - 1 if wall is None else wall - stretch.offset
            if second >= stretch.end - _NEAR or abs(at - stretch.start) <= _NEAR:
                at = self._last_in(stretch, second)
            if at >= stretch.start:
                return at * 1000 if at >= FIRST else None
            second = _short_of(stretch, second, wall)
        return None

    def count_ms(self, after: int, until: int) -> int:
        second, last = max(after // 1000 + 1, FIRST), min(until // 1000, END - 1)
        count = 0
        while second <= last:
            stretch = self.zone.stretch_at(second)
            count += self._count_in(stretch, second, min(last + 1, stretch.end))
            second = stretch.end
        return count

    def note_at(self, at: int) -> str | None:
        """What a clock change has to do with a fire at `at` (ms).

        "gap" if it stands for skipped wall times, "repeat" if its wall time passes twice, else None.
        """
        second = at // 1000
        stretch = self.zone.stretch_at(second)
        if second in self._moved(stretch):
            return "gap"
        was_shown = second - stretch.start < stretch.before - stretch.offset
        will_be = stretch.end - second <= stretch.offset - stretch.after
        return "repeat" if was_shown or will_be else None

    def _first_in(self, stretch: Stretch, second: int) -> int:
        """The first instant in [second, stretch.end); END if there is none."""
        low, high = self._plain(stretch)
        wall = self.rule.next_wall(max(second, low) + stretch.offset)
        plain = END if wall is None or wall - stretch.offset >= high else wall - stretch.offset
        return min([plain, *(moved for moved in self._moved(stretch) if moved >= second)])

    def _last_in(self, stretch: Stretch, second: int) -> int:
        """The last instant in [stretch.start, second]; an earlier one if there is none."""
        low, high = self._plain(stretch)
        wall = self.rule.prev_wall(min(second, high - 1) + stretch.offset)
        plain = FIRST - 1 if wall is None or wall - stretch.offset < low else wall - stretch.offset
        return max([plain, *(moved for moved in self._moved(stretch) if moved <= second)])

    def _count_in(self, stretch: Stretch, start: int, end: int) -> int:
        """How many instants lie in [start, end), a part of the stretch."""
        low, high = self._plain(stretch)
        low, high = max(low, start), min(high, end)
        plain = self.rule.count_wall(low + stretch.offset, high + stretch.offset) if low < high else 0
        return plain + sum(
            start <= moved < end and not (low <= moved < high and self._matches(moved + stretch.offset))
            for moved in self._moved(stretch)
        )

    def _plain(self, stretch: Stretch) -> tuple[int, int]:
        """The part [low, high) of a stretch in which the rule fires just as the wall clock says."""
        low, high = stretch.start, stretch.end
        if self.wild:
            return low, high
        if self.repeat == "first" and 0 < stretch.before - stretch.offset <= _NEAR:
            low += stretch.before - stretch.offset
        if self.repeat == "last" and 0 < stretch.offset - stretch.after <= _NEAR:
            high -= stretch.offset - stretch.after
        return low, high

    def _moved(self, stretch: Stretch) -> list[int]:
        """The instants to which the wall times that were skipped at the start of the stretch are moved."""
        if self.wild or self.gap == "skip" or not 0 < stretch.offset - stretch.before < _NEAR:
            return []
        low, high = stretch.start + stretch.before, stretch.start + stretch.offset
        wall = self.rule.next_wall(low)
        if self.gap == "next":
            return [stretch.start] if wall is not None and wall < high else []
        moved: list[int] = []
        while wall is not None and wall < high:
            moved.append(wall - stretch.before)
            wall = self.rule.next_wall(wall + 1)
        return moved

    def _matches(self, wall: int) -> bool:
        return self.rule.next_wall(wall) == wall


def place_rule(rule: WallRule, zone: Zone, gap: str, repeat: str, *, wild: bool) -> Instants:
    """The instants of a wall rule in a zone."""
    return Unmoved(rule) if zone.info is None else Placed(rule, zone, gap, repeat, wild)


def check_policy(gap: str, repeat: str) -> None:
    """Raises `TriggerError` unless both are policies that `Placed` knows."""
    if gap not in GAPS:
        raise TriggerError(f"gap={show(gap)}: expected one of {', '.join(GAPS)}")
    if repeat not in REPEATS:
        raise TriggerError(f"repeat={show(repeat)}: expected one of {', '.join(REPEATS)}")


def _beyond(stretch: Stretch, second: int, wall: int | None) -> int:
    """Where to search on, when the stretch holds nothing after `second` and `wall` is the next wall time.

    Near its end the next stretch must be looked at, for its clock may go back to times already passed. Otherwise all up
    to the neighbourhood of `wall` can be left out, however many changes lie between.
    """
    if stretch.end - second <= REACH:
        return stretch.end
    return max(stretch.end, END if wall is None else wall - stretch.offset - REACH)


def _short_of(stretch: Stretch, second: int, wall: int | None) -> int:
    """As `_beyond`, for a search backwards."""
    if second - stretch.start <= REACH:
        return stretch.start - 1
    return min(stretch.start - 1, FIRST - 1 if wall is None else wall - stretch.offset + REACH)
