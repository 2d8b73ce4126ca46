"""Time zones as pieces of constant offset.

A zone, to the engine, is a list of `Stretch`es: from one change of the UTC offset to the next. Everything about clock
changes follows from a stretch's own offset and those of its neighbours; nothing is assumed about how far, when or why a
zone moves (30 minutes, two hours, a whole day, one minute past midnight, down in winter, once and never again).

The standard library knows offsets but does not tell where they change, so that is found by asking: the offset is
sampled every `STEP` and each difference is narrowed down by halving. No zone has ever changed twice within `STEP` (the
closest two changes on record, Freetown in 1939, are four days apart; a test compares with the compiled data of all
zones). The answers are kept per `ERA` of about a year, in one bounded cache, so that a search in the year 2400 asks
about 2400 only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from scheduler.triggers.base import END_MS, FIRST_MS, show
from shared.errors import UnknownZoneError

STEP = 1 << 18
ERA = 1 << 25

# Offsets reach a day either way, so a local date at the beginning of the calendar can't be asked for.
_EARLIEST = FIRST_MS // 1000 + 2 * 86_400

# Zones are known by tables, none of which reaches the year 2100, and by yearly rules after that. The calendar on which
# the
# rules stand repeats every 400 years; so do the changes.
CYCLE = 146_097 * 86_400
_LIKE = 4_102_444_800
_REPEATS = _LIKE + CYCLE

_NAME = re.compile(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+)*")
# Files beside the zones that are no zones: the host's own, and copies that count leap seconds.
_NO_ZONES = re.compile(r"localtime|posixrules|Factory|(?:posix|right)/.*")


class Stretch(NamedTuple):
    """Instants [start, end), in s, over which `offset` (wall clock minus UTC, in s) holds; and its neighbours'."""

    start: int
    end: int
    offset: int
    before: int
    after: int


_ALL_OF_UTC = Stretch(FIRST_MS // 1000, END_MS // 1000, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Zone:
    """A zone by its name. `info` is None for UTC, which needs no data."""

    name: str
    info: ZoneInfo | None

    def stretch_at(self, second: int) -> Stretch:
        """The stretch that holds at an instant, in epoch s.

        Its start and end are changes of offset, or lie days away from any; so neighbours asked for in turn may overlap.
        """
        if self.info is None:
            return _ALL_OF_UTC
        if second >= _REPEATS:
            return _later(self.stretch_at((second - _LIKE) % CYCLE + _LIKE), (second - _LIKE) // CYCLE * CYCLE)
        for stretch in _era(self.info, second >> 25):
            if second < stretch.end:
                return stretch
        raise AssertionError("an era covers all its instants")


UTC_ZONE = Zone("UTC", None)


def find_zone(name: str | ZoneInfo | None) -> Zone:
    """The zone of that exact name; None is UTC, never the host's zone. Raises `UnknownZoneError`."""
    if name is None or name == "UTC":
        return UTC_ZONE
    key = name.key if isinstance(name, ZoneInfo) else name
    if not isinstance(key, str) or len(key) > 100 or not _NAME.fullmatch(key) or _NO_ZONES.fullmatch(key):
        raise _unknown(key)
    return _loaded(key)


@lru_cache(maxsize=1024)
def _loaded(key: str) -> Zone:
    try:
        info = ZoneInfo(key)
    except (ValueError, OSError, LookupError):  # LookupError: ZoneInfoNotFoundError, also for an unreadable file
        raise _unknown(key) from None
    if not _is_spelled_exactly(key):
        raise _unknown(key)
    return UTC_ZONE if key == "UTC" else Zone(key, info)


def require_zone_data() -> None:
    """Raises `UnknownZoneError` with the cure if this machine has no time zone data: to call at a process' start."""
    find_zone("Europe/Paris")


@cache
def _zone_names() -> frozenset[str]:
    return frozenset(available_timezones())


@cache
def _names_in_tzdata() -> frozenset[str]:
    from importlib import resources  # noqa: PLC0415 - slow to load, and needed only once a zone is named

    try:
        return frozenset(resources.files("tzdata").joinpath("zones").read_text("ascii").split())
    except (ModuleNotFoundError, OSError):
        return frozenset()


def _is_spelled_exactly(key: str) -> bool:
    """Whether the name is in a list: a file system that ignores case would find `europe/paris` as well."""
    return key in _names_in_tzdata() or key in _zone_names()


def _unknown(key: object) -> UnknownZoneError:
    if not _zone_names():
        return UnknownZoneError(f"time zone {show(key)}: this machine has no time zone data; cure: pip install tzdata")
    return UnknownZoneError(f"unknown time zone {show(key)}; {_advice(key)}")


def _advice(key: object) -> str:
    if not isinstance(key, str) or not key:
        return "expected an IANA name such as 'Europe/Paris'"
    shifted = re.fullmatch(r"(?:UTC|GMT)([+-])0?(\d{1,2})(?::?00)?", key[:12], re.ASCII)
    if shifted:
        # POSIX counts west as positive, so Etc/GMT-3 is three hours ahead of UTC.
        return f"did you mean 'Etc/GMT{'-' if shifted[1] == '+' else '+'}{shifted[2]}'?"
    near = _near_misses(key[:100])
    return f"did you mean {near}?" if near else "names are exact, such as 'Europe/Paris'"


def _near_misses(key: str) -> str:
    import difflib  # noqa: PLC0415 - needed for a misspelt name only

    by_lower = {name.lower(): name for name in sorted(_zone_names())}
    wanted = key.strip().lower().replace(" ", "_")
    cities = {name.rpartition("/")[2].lower(): name for name in sorted(_zone_names()) if "/" in name}
    found = [by_lower[near] for near in difflib.get_close_matches(wanted, by_lower, n=2, cutoff=0.75)]
    found += [cities[wanted]] if wanted in cities else []
    return " or ".join(repr(name) for name in dict.fromkeys(found))


@lru_cache(maxsize=8192)
def _era(info: ZoneInfo, index: int) -> tuple[Stretch, ...]:
    start, end = index * ERA, (index + 1) * ERA
    changes = _changes(info, start - 4 * STEP, end + 4 * STEP)
    # An edge that is no change is put where none is near, so that no consequence of a change is cut off.
    first = max((change for change in changes if change <= start), default=start - 2 * STEP)
    last = min((change for change in changes if change >= end), default=end + 2 * STEP)
    edges = [first, *(change for change in changes if start < change < end), last]
    offsets = [_offset(info, edge) for edge in (first - 1, *edges)]
    return tuple(
        Stretch(edges[i], edges[i + 1], offsets[i + 1], offsets[i], offsets[i + 2]) for i in range(len(edges) - 1)
    )


def _later(stretch: Stretch, seconds: int) -> Stretch:
    start, end, offset, before, after = stretch
    return Stretch(start + seconds, end + seconds, offset, before, after)


def _changes(info: ZoneInfo, start: int, end: int) -> list[int]:
    """The instants in (start, end) at which the offset becomes another."""
    found: list[int] = []
    left, offset = start, _offset(info, start)
    for right in range(start + STEP, end, STEP):
        if (later := _offset(info, right)) != offset:
            found.append(_change_between(info, left, right, offset))
            offset = later
        left = right
    return found


def _change_between(info: ZoneInfo, left: int, right: int, offset: int) -> int:
    while right - left > 1:
        middle = (left + right) // 2
        if _offset(info, middle) == offset:
            left = middle
        else:
            right = middle
    return right


def _offset(info: tzinfo, second: int) -> int:
    at = datetime.fromtimestamp(max(second, _EARLIEST), info)
    return (at.utcoffset() or timedelta(0)) // timedelta(seconds=1)
