"""The local day of a zone: where it lies in time, and where a wall time on it is placed.

Wall times and instants here are in ms; a day is counted from 1970-01-01. A wall time is *placed* at the earliest
instant whose wall clock shows it or a later one: the first passing of a repeated hour, the end of a gap. So places
never go back as wall times go on, which is what lets a search by time of day be turned into a search by instant.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from scheduler.triggers.wall import DAY, REACH
from scheduler.triggers.zones import Zone

DAY_MS = DAY * 1000


class Piece(NamedTuple):
    """Instants [start, end) of one day over which wall time = instant + `offset`."""

    start: int
    end: int
    offset: int


def day_of(zone: Zone, at: int) -> int:
    """The local day of an instant."""
    return (at + zone.stretch_at(at // 1000).offset * 1000) // DAY_MS


def pieces_of(zone: Zone, day: int) -> Iterator[Piece]:
    """The pieces of a day: one, more if the clock changes on it, none if the zone left it out."""
    low, high = day * DAY_MS, (day + 1) * DAY_MS
    for start, end, offset in _around(zone, low, high):
        piece = Piece(max(start, low - offset), min(end, high - offset), offset)
        if piece.start < piece.end:
            yield piece


def place(zone: Zone, wall: int) -> int:
    """The instant at which a wall time is placed."""
    for start, end, offset in _around(zone, wall, wall):
        at = max(start, wall - offset)
        if at < end:
            return at
    raise AssertionError("every wall time is reached")


def first_placed_after(zone: Zone, at: int) -> int:
    """The earliest wall time that is placed later than `at`: later than all that the clock has shown until then."""
    stretch = zone.stretch_at(at // 1000)
    return max(at + 1 + stretch.offset * 1000, (stretch.start + stretch.before) * 1000)


def _around(zone: Zone, low: int, high: int) -> Iterator[Piece]:
    """The time in which wall times from `low` to `high` may be shown, in pieces that follow on each other."""
    second, last = low // 1000 - REACH, high // 1000 + REACH
    while second <= last:
        stretch = zone.stretch_at(second)
        # From `second`, not from the stretch's own start: the stretches that a zone answers with may overlap.
        yield Piece(second * 1000, stretch.end * 1000, stretch.offset * 1000)
        second = stretch.end
