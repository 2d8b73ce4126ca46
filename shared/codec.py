"""Values to bytes and back: msgpack with a closed list of extension types, no names of code, no pickle.

What goes in comes out equal and of the same type, or is refused where it is written, with its path. Reading is bounded
in size and depth before anything is built from what was read.

    code  type                       data
    1     tuple                      its items
    2     datetime, aware            [µs since the epoch, zone name or offset in seconds, fold]
    3     date                       ISO text
    4     time, naive                ISO text
    5     timedelta                  whole µs
    6     Decimal                    its text
    7     UUID                       16 bytes
    8     set       9  frozenset     its items, in the order of their encoding
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import partial
from itertools import count
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgpack

from shared.errors import PayloadError, RefusedPayloadError

MAX_BYTES = 256 * 1024
MAX_DEPTH = 64
MAX_ITEMS = 100_000
"""Counted where they stand: a few lists that hold one another many times over can stand for more than fit anywhere."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT_RANGE = range(-(2**63), 2**64)


def encode(value: object, path: str = "value", limit: int = MAX_BYTES) -> bytes:
    """The bytes of a value. Raises PayloadError, with the path of the offender, for what would not come back equal."""
    check(value, path)
    return pack(value, path, limit)


def check(value: object, path: str, room: int = MAX_DEPTH, seen: Iterator[int] | None = None) -> None:
    """Raises PayloadError, with the path of the offender, for what would not come back equal.

    `room` is how deep it may nest; `seen` counts the items of several values together.
    """
    _check(value, path, room, count(1) if seen is None else seen)


def pack(value: object, path: str = "value", limit: int = MAX_BYTES) -> bytes:
    """The bytes of a value that was checked. Raises PayloadError when they are too many."""
    data = _pack(value)
    if len(data) > limit:
        raise PayloadError(
            f"{len(data):,} bytes encoded; at most {limit:,} may travel. Pass a reference instead", path=path
        )
    return data


def decode(data: bytes, limit: int = MAX_BYTES) -> Any:
    """The value of some bytes. Raises RefusedPayloadError for anything that `encode` would not have written."""
    if len(data) > limit:
        raise RefusedPayloadError(f"{len(data):,} bytes, at most {limit:,} are read")
    value = _unpack(data, MAX_DEPTH)
    _check_read(value, MAX_DEPTH)
    return value


# Writing.


def _pack(value: object) -> bytes:
    return cast("bytes", msgpack.packb(value, default=_to_ext, strict_types=True, use_bin_type=True))


def _to_ext(value: object) -> msgpack.ExtType:
    if isinstance(value, set | frozenset):
        return msgpack.ExtType(_SETS[type(value)], _pack_sorted(value))
    code, write = _WRITERS[type(value)]
    return msgpack.ExtType(code, _pack(write(value)))


def _write_datetime(value: datetime) -> list[object]:
    zone: object = value.tzinfo.key if isinstance(value.tzinfo, ZoneInfo) else _offset_seconds(value)
    return [(value - _EPOCH) // _MICROSECOND, zone, value.fold]


def _offset_seconds(value: datetime) -> float:
    offset = value.utcoffset()
    return offset.total_seconds() if offset is not None else 0.0


def _pack_sorted(value: set[object] | frozenset[object]) -> bytes:
    """The bytes of a list of the items. Each is packed once: twice at each level would double with the depth."""
    packer = msgpack.Packer(autoreset=False)
    packer.pack_array_header(len(value))
    return b"".join([packer.bytes(), *sorted(map(_pack, value))])


_WRITERS: dict[type, tuple[int, Callable[[Any], object]]] = {
    tuple: (1, list),
    datetime: (2, _write_datetime),
    date: (3, date.isoformat),
    time: (4, time.isoformat),
    timedelta: (5, lambda value: value // _MICROSECOND),
    Decimal: (6, str),
    uuid.UUID: (7, lambda value: value.bytes),
}
_SETS: dict[type, int] = {set: 8, frozenset: 9}


def _check(value: object, path: str, room: int, seen: Iterator[int]) -> None:
    if room < 0:
        raise PayloadError(f"nested deeper than {MAX_DEPTH}", path=path[:200])
    if next(seen) > MAX_ITEMS:
        raise PayloadError(f"more than {MAX_ITEMS:,} items. Pass a reference instead", path=path[:200])
    check = _CHECKS.get(type(value))
    if check is None:
        raise PayloadError(f"a {type(value).__name__} can't travel. {_cure(value)}", path=path)
    check(value, path, room, seen)


def _cure(value: object) -> str:
    if isinstance(value, int | str | float) and not isinstance(value, Enum):
        return "Pass its plain value"
    if isinstance(value, Enum) or is_dataclass(value):
        return "Annotate it in handle() with its class"
    return "Pass plain values, dates, Decimals, UUIDs, tuples and sets, or an id to look it up by"


def _check_nothing(_value: object, _path: str, _room: int, _seen: Iterator[int]) -> None:
    pass


def _check_int(value: int, path: str, _room: int, _seen: Iterator[int]) -> None:
    if value not in _INT_RANGE:
        raise PayloadError("an integer needs more than 64 bits. Pass it as text", path=path)


def _check_str(value: str, path: str, _room: int, _seen: Iterator[int]) -> None:
    _check_text(value, path)


def _check_text(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PayloadError("text with a lone surrogate is not Unicode. Pass it as bytes", path=path) from None


def _check_dict(value: dict[object, object], path: str, room: int, seen: Iterator[int]) -> None:
    for key, item in value.items():
        if type(key) is not str:
            raise PayloadError(f"the key {key!r:.60} is a {type(key).__name__}; keys are text", path=path)
        _check_text(key, f"{path} key")
        _check(item, f"{path}.{key}", room - 1, seen)


def _check_items(value: Any, path: str, room: int, seen: Iterator[int]) -> None:
    for index, item in enumerate(value):
        _check(item, f"{path}[{index}]", room - 1, seen)


def _check_datetime(value: datetime, path: str, _room: int, _seen: Iterator[int]) -> None:
    if value.utcoffset() is None:
        raise PayloadError("a naive datetime names no instant. Add tzinfo, such as datetime.UTC", path=path)
    if isinstance(value.tzinfo, ZoneInfo) and not _is_known(value.tzinfo.key):
        raise PayloadError(f"no zone is known as {value.tzinfo.key!r:.80}. Pass a time in one that is", path=path)
    if not _exists(value):
        raise PayloadError(f"{value.isoformat()} is skipped by the clocks there. Pass a time that exists", path=path)


def _is_known(zone: str | None) -> bool:
    """Whether a reader would find the zone by its name; one that was read from a file may have none."""
    try:
        return zone is not None and ZoneInfo(zone) is not None
    except (ValueError, LookupError, OSError):
        return False


def _exists(value: datetime) -> bool:
    """Whether a local time is shown by the clocks of its zone: one in a gap would come back as another."""
    try:
        back = value.astimezone(UTC).astimezone(value.tzinfo)
    except OverflowError:  # at either end of the years, where not every zone can show every instant
        return False
    return back.replace(tzinfo=None) == value.replace(tzinfo=None)


def _check_timedelta(value: timedelta, path: str, _room: int, _seen: Iterator[int]) -> None:
    if value // _MICROSECOND not in _INT_RANGE:
        raise PayloadError("a timedelta needs more than 64 bits of microseconds. Pass its days", path=path)


def _check_time(value: time, path: str, _room: int, _seen: Iterator[int]) -> None:
    if value.tzinfo is not None:
        raise PayloadError("a time with a zone has no offset without a date. Pass an aware datetime", path=path)


_CHECKS: dict[type, Callable[[Any, str, int, Iterator[int]], None]] = {
    **dict.fromkeys((type(None), bool, float, bytes, date, Decimal, uuid.UUID), _check_nothing),
    **dict.fromkeys((list, tuple, set, frozenset), _check_items),
    int: _check_int,
    str: _check_str,
    dict: _check_dict,
    datetime: _check_datetime,
    time: _check_time,
    timedelta: _check_timedelta,
}


# Reading.


def _unpack(data: bytes, room: int) -> Any:
    if room < 0:
        raise RefusedPayloadError(f"nested deeper than {MAX_DEPTH}")
    try:
        return msgpack.unpackb(data, ext_hook=partial(_from_ext, room - 1), raw=False, strict_map_key=True)
    except RefusedPayloadError:
        raise
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise RefusedPayloadError(f"not msgpack of ours: {error!s:.200}") from None


def _from_ext(room: int, code: int, data: bytes) -> Any:
    read = _READERS.get(code)
    if read is None:
        raise RefusedPayloadError(f"extension type {code} is none of ours")
    try:
        return read(_unpack(data, room))
    except RefusedPayloadError:
        raise
    except (ValueError, TypeError, OverflowError, LookupError, InvalidOperation) as error:
        raise RefusedPayloadError(f"extension type {code}: {error!s:.200}") from None


def _read_datetime(parts: list[Any]) -> datetime:
    microseconds, zone, fold = parts
    tz = ZoneInfo(zone) if isinstance(zone, str) else _fixed_offset(zone)
    return (_EPOCH + timedelta(microseconds=microseconds)).astimezone(tz).replace(fold=fold)


def _fixed_offset(seconds: float) -> timezone:
    return UTC if seconds == 0 else timezone(timedelta(seconds=seconds))


_READERS: dict[int, Callable[[Any], object]] = {
    1: tuple,
    2: _read_datetime,
    3: date.fromisoformat,
    4: time.fromisoformat,
    5: lambda microseconds: timedelta(microseconds=microseconds),
    6: Decimal,
    7: lambda raw: uuid.UUID(bytes=raw),
    8: set,
    9: frozenset,
}


def _check_read(value: object, room: int) -> None:
    """What msgpack bounds less tightly than we do, or reads without asking: its own extension type for timestamps."""
    if isinstance(value, msgpack.Timestamp):
        raise RefusedPayloadError("extension type -1 is none of ours")
    if not isinstance(value, dict | list | tuple | set | frozenset):
        return
    if room < 0:
        raise RefusedPayloadError(f"nested deeper than {MAX_DEPTH}")
    for item in value.values() if isinstance(value, dict) else value:
        _check_read(item, room - 1)
