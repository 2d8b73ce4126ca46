"""What travels with a job: round trips, and what is refused on either side."""

from __future__ import annotations

import contextlib

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.codec import MAX_DEPTH, MAX_ITEMS, decode, encode
from shared.errors import PayloadError, RefusedPayloadError
from shared.job import Job, call_of
from shared.payload import (
    MAX_DATA_BYTES,
    RUNNER,
    Call,
    FireContext,
    data_of,
    pack_call,
    pack_context,
    unpack_call,
    unpack_context,
)
from shared.retry import Retry

INSTANTS = st.none() | st.integers(0, 2**53)
CONTEXTS = st.builds(
    FireContext,
    kind=st.sampled_from(["scheduled", "catchup", "manual", "backfill", "dispatch"]),
    enqueued=st.integers(0, 2**53),
    schedule=st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
    nominal=INSTANTS,
    previous=INSTANTS,
    next=INSTANTS,
    deadline=INSTANTS,
)


@given(CONTEXTS)
def test_a_context_round_trips(context: FireContext) -> None:
    assert unpack_context(pack_context(context)) == context


@pytest.mark.parametrize(
    "call",
    [
        Call(job="a"),
        Call(job="a", args=(1, (2,), None), kwargs={"x": {1}}, middleware=("m", "n")),
        Call(job="a", retry=Retry(max=3, backoff=10, cap=60, jitter=0.1, on=(KeyError,))),
    ],
)
def test_a_call_round_trips(call: Call) -> None:
    assert unpack_call(pack_call(call)) == call


def test_rqs_data_calls_the_runner_with_both_parts() -> None:
    call, context = Call(job="a", args=(1,)), FireContext(kind="dispatch", enqueued=1)
    assert decode(data_of(call, context)) == [RUNNER, None, [pack_call(call), pack_context(context)], {}]


def test_the_largest_call_fits_into_what_a_worker_reads() -> None:
    size = 256 * 1024 - 200
    data = data_of(Call(job="a", args=(b"x" * size,)), FireContext(kind="dispatch", enqueued=2**53, schedule="é" * 200))
    assert len(data) <= MAX_DATA_BYTES


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [((object(),), {}, "args[0]"), ((), {"a": {"b": [object()]}}, "kwargs.a.b[0]"), (({1: 2},), {}, "args[0]")],
)
def test_pay_checked_at_load_the_path_of_the_offender_is_told(
    args: tuple[object, ...], kwargs: dict[str, object], path: str
) -> None:
    with pytest.raises(PayloadError) as caught:
        pack_call(Call(job="a", args=args, kwargs=kwargs))
    assert caught.value.path == path


def test_what_is_sent_is_as_deep_as_what_is_read_and_no_deeper() -> None:
    value: list[object] = []
    for _ in range(MAX_DEPTH - 2):
        value = [value]
    for call in (Call(job="a", args=(value,)), Call(job="a", kwargs={"x": value})):
        assert unpack_call(pack_call(call)) == call
    for call in (Call(job="a", args=([value],)), Call(job="a", kwargs={"x": [value]})):
        with pytest.raises(PayloadError, match="nested deeper"):
            pack_call(call)


def test_items_are_counted_over_all_arguments() -> None:
    half = [None] * (MAX_ITEMS * 6 // 10)
    for call in (Call(job="a", args=(half, half)), Call(job="a", args=(half,), kwargs={"x": half})):
        with pytest.raises(PayloadError, match="more than 100,000 items"):
            pack_call(call)


def test_a_middlewares_name_is_text() -> None:
    with pytest.raises(PayloadError, match="lone surrogate"):
        pack_call(Call(job="a", middleware=("\ud800",)))


class Takes(Job):
    name = "test-payload-takes"

    def handle(self, a: int, *, b: int = 1) -> None: ...


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2), {}), ((1,), {"c": 1})])
def test_pay_checked_at_load_arguments_that_the_handler_does_not_take(
    args: tuple[int, ...], kwargs: dict[str, int]
) -> None:
    with pytest.raises(PayloadError, match=r"^test-payload-takes\.handle: "):
        call_of(Takes, args, kwargs)


SOUND = {"v": 1, "job": "a", "args": [], "kwargs": {}, "retry": None, "middleware": []}


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"v": None},
        {"job": 1},
        {"args": 1},
        {"kwargs": [1]},
        {"retry": {"max": -1}},
        {"retry": {"max": 1, "on": [], "surprise": 1}},
        {"retry": [1]},
        {"middleware": None},
    ],
)
def test_a_fixed_part_that_is_none_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(RefusedPayloadError):
        unpack_call(encode({**SOUND, **change}))


@pytest.mark.parametrize("missing", list(SOUND))
def test_a_fixed_part_with_a_hole_is_refused(missing: str) -> None:
    with pytest.raises(RefusedPayloadError):
        unpack_call(encode({name: value for name, value in SOUND.items() if name != missing}))


@pytest.mark.parametrize(
    "value",
    [
        [],
        {"v": 1},
        {"v": 1, "kind": "dispatch"},
        {"v": 1, "kind": "hourly", "enqueued": 1},
        {"v": 1, "kind": ["dispatch"], "enqueued": 1},
        {"v": 1, "kind": "dispatch", "enqueued": "now"},
        {"v": 1, "kind": "dispatch", "enqueued": True},
        {"v": 1, "kind": "dispatch", "enqueued": 1, "deadline": 1.5},
        {"v": 1, "kind": "dispatch", "enqueued": 1, "schedule": 1},
        {"v": 1, "kind": "dispatch", "enqueued": 1, "surprise": 1},
    ],
)
def test_a_context_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(RefusedPayloadError):
        unpack_context(encode(value))


PLAIN = st.recursive(
    st.none() | st.text(max_size=3) | st.integers(0, 9),
    lambda items: st.lists(items) | st.dictionaries(st.sampled_from(list(SOUND)), items),
)


@given(st.binary(max_size=200) | PLAIN.map(msgpack.packb))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    for unpack in (unpack_call, unpack_context):
        with contextlib.suppress(RefusedPayloadError):
            unpack(data)
