"""Values to bytes and back: equal and of the same type, or refused where they are written, with their path."""

from __future__ import annotations

import contextlib
import io
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum
from importlib import resources
from typing import Any
from zoneinfo import ZoneInfo

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.codec import MAX_BYTES, MAX_DEPTH, decode, encode
from shared.errors import PayloadError, RefusedPayloadError


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def types(value: object) -> Iterator[type]:
    """The type of a value and of everything inside it."""
    yield type(value)
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from types(item)


PARIS = ZoneInfo("Europe/Paris")
EARLIEST, LATEST = datetime.fromisoformat("1971-01-01"), datetime.fromisoformat("9998-01-01")
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
    | st.binary(max_size=20)
    | st.dates()
    | st.times()
    | st.timedeltas(timedelta(days=-(10**6)), timedelta(days=10**6))
    | st.decimals()
    .filter(lambda number: not number.is_snan())
    .map(lambda number: Decimal(0) if number.is_nan() else number)
    | st.uuids()
    | st.datetimes(EARLIEST, LATEST, timezones=st.sampled_from([UTC, PARIS]), allow_imaginary=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda items: (
        st.lists(items, max_size=4)
        | st.tuples(items, items)
        | st.dictionaries(st.text("abc", max_size=3), items, max_size=4)
        | st.sets(st.integers(0, 9))
        | st.frozensets(st.text("ab", max_size=2))
    ),
    max_leaves=12,
)


@given(VALUES)
def test_what_goes_in_comes_out_equal_and_of_the_same_types(value: Any) -> None:
    back = decode(encode(value))
    assert back == value
    assert list(types(back)) == list(types(value))


@pytest.mark.parametrize(
    "value",
    [
        datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=0),
        datetime(2026, 10, 25, 2, 30, tzinfo=PARIS, fold=1),
        datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5, minutes=45))),
        datetime(2026, 1, 1, microsecond=1, tzinfo=UTC),
    ],
)
def test_pay_datetime_keeps_instant_zone_and_fold(value: datetime) -> None:
    back = decode(encode({"in": [value]}))["in"][0]
    assert (back, back.tzinfo, back.utcoffset(), back.fold) == (value, value.tzinfo, value.utcoffset(), value.fold)


@pytest.mark.parametrize("value", [datetime(2026, 3, 29, 2, 30, tzinfo=PARIS), datetime.min.replace(tzinfo=PARIS)])
def test_pay_datetime_that_the_clocks_skip_is_refused(value: datetime) -> None:
    with pytest.raises(PayloadError, match=r"^args\[0\]: .* is skipped by the clocks there"):
        encode([value], "args")


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), time(1, tzinfo=UTC)])  # noqa: DTZ001 - the fault under test
def test_pay_datetime_what_names_no_instant_is_refused_with_its_path(value: object) -> None:
    with pytest.raises(PayloadError, match=r"^kwargs\.when\[1\]: "):
        encode({"when": [1, value]}, "kwargs")


@pytest.mark.parametrize("value", [{1: "a"}, {"m": {2: 3}}, {None: 1}, {(1, 2): 3}, {b"k": 1}])
def test_pay_int_keys_are_refused_where_they_are_written(value: object) -> None:
    with pytest.raises(PayloadError, match="keys are text"):
        encode(value, "kwargs")


def test_pay_big_int() -> None:
    assert [decode(encode(number)) for number in (2**63, 2**64 - 1, -(2**63))] == [2**63, 2**64 - 1, -(2**63)]
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(PayloadError, match=r"^args\[0\]\.n: an integer needs more than 64 bits"):
            encode([{"n": number}], "args")


@pytest.mark.parametrize(
    "value",
    [Decimal("1.10"), Decimal("NaN"), Decimal("-0"), uuid.UUID(int=2**128 - 1), {1, 2}, frozenset("ab"), (1, (2,)), ()],
)
def test_pay_decimal_uuid_set_tuple_nested_and_alone(value: Any) -> None:
    back = decode(encode([value, {"in": value}]))
    assert repr(back) == repr([value, {"in": value}])


@pytest.mark.parametrize(
    "value", [Colour.RED, Level.HIGH, Point(1), object(), print, iter([]), 1j, range(3), bytearray(b"x"), ValueError()]
)
def test_what_would_come_back_as_something_else_is_refused(value: object) -> None:
    with pytest.raises(PayloadError, match=r"^args\[0\]: .*can't travel"):
        encode([value], "args")


def test_equal_sets_have_equal_bytes() -> None:
    assert encode({"b", "a", "c"}) == encode({"c", "b", "a"})


@pytest.mark.parametrize("text", ["é🙂", "\x00", "مرحبا", "𐍈", "a" * 1000])
def test_pay_unicode_round_trips(text: str) -> None:
    assert decode(encode({text: text.encode()})) == {text: text.encode()}


@pytest.mark.parametrize("value", ["\ud800", {"\udfff": 1}, ["ok", "\ud83d"]])
def test_pay_unicode_a_lone_surrogate_is_refused(value: object) -> None:
    with pytest.raises(PayloadError, match="lone surrogate"):
        encode(value, "args")


@pytest.mark.parametrize("size", [MAX_BYTES, 1_000_000, 20_000_000])
def test_pay_large_is_refused_in_one_short_line(size: int) -> None:
    with pytest.raises(PayloadError) as caught:
        encode({"blob": b"x" * size}, "kwargs")
    assert len(str(caught.value)) < 300


def test_depth_is_bounded_on_both_sides() -> None:
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    with pytest.raises(PayloadError, match="nested deeper"):
        encode(nested(MAX_DEPTH + 1))
    with pytest.raises(RefusedPayloadError):
        decode(msgpack.packb(nested(MAX_DEPTH + 1)))


def test_what_refers_to_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(PayloadError, match="nested deeper"):
        encode(loop)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\x91",
        b"\xdd\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\x80\x80",
        b"\x91" * 100_000,
        msgpack.packb({1: 2}),
        msgpack.packb(msgpack.ExtType(42, b"")),
        msgpack.packb(msgpack.Timestamp(1, 0)),
        msgpack.packb(msgpack.ExtType(2, msgpack.packb([0, "../../etc/passwd", 0]))),
        msgpack.packb(msgpack.ExtType(2, msgpack.packb([10**18, "UTC", 0]))),
        msgpack.packb(msgpack.ExtType(6, msgpack.packb("one"))),
        msgpack.packb(msgpack.ExtType(7, msgpack.packb(b"short"))),
        msgpack.packb(msgpack.ExtType(8, msgpack.packb([[1]]))),
        msgpack.packb(b"x" * (MAX_BYTES + 1)),
    ],
)
def test_poison_bytes_are_refused_and_nothing_else(data: bytes) -> None:
    with pytest.raises(RefusedPayloadError):
        decode(data)


def test_extensions_inside_extensions_share_one_depth() -> None:
    data = b"\x90"
    for _ in range(MAX_DEPTH + 10):
        data = msgpack.packb(msgpack.ExtType(1, msgpack.packb([0]) if data == b"\x90" else b"\x91" + data))
    with pytest.raises(RefusedPayloadError, match="nested deeper"):
        decode(data)


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with contextlib.suppress(RefusedPayloadError):
        decode(data)


class NoOffset(tzinfo):
    def utcoffset(self, _at: datetime | None) -> None:
        return None

    def dst(self, _at: datetime | None) -> None:
        return None

    def tzname(self, _at: datetime | None) -> None:
        return None


def zone_from_file(key: str | None) -> ZoneInfo:
    data = (resources.files("tzdata") / "zoneinfo" / "Europe" / "Paris").read_bytes()
    return ZoneInfo.from_file(io.BytesIO(data), key)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (timedelta.max, "64 bits"),
        (timedelta.min, "64 bits"),
        (datetime(2026, 1, 1, tzinfo=NoOffset()), "naive"),
        (datetime(2026, 1, 1, tzinfo=zone_from_file(None)), "no zone is known"),
        (datetime(2026, 1, 1, tzinfo=zone_from_file("Nowhere/At_All")), "no zone is known"),
        (datetime(2026, 1, 1, tzinfo=zone_from_file("../etc")), "no zone is known"),
    ],
)
def test_what_would_not_be_read_again_is_refused_where_it_is_written(value: object, told: str) -> None:
    with pytest.raises(PayloadError, match=told):
        encode(value)


def test_shared_references_that_explode_are_refused_soon() -> None:
    value: list[object] = []
    for _ in range(40):
        value = [value, value]
    with pytest.raises(PayloadError, match="100,000 items"):
        encode(value)


def test_sets_inside_sets_take_no_longer_with_each_level() -> None:
    value: frozenset[object] = frozenset()
    for _ in range(60):
        value = frozenset([value])
    assert decode(encode(value)) == value
