"""Judging job records: what RQ may read of them, and what is refused."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shared.codec import encode
from shared.payload import RUNNER, Call, FireContext, data_of
from worker.record import judge

CALL, FIRE = Call(job="sync", args=(1,)), FireContext(kind="scheduled", enqueued=1, schedule="s", nominal=2)
DATA = data_of(CALL, FIRE)
SOUND = {b"data": DATA, b"status": b"queued", b"created_at": b"2026-11-29T08:00:00.000000Z", b"timeout": b"180"}


def test_a_sound_record_passes_as_it_is() -> None:
    record = judge(SOUND)
    assert (record.refusal, record.bad, record.call, record.fire) == (None, (), CALL, FIRE)
    assert record.data == DATA
    assert record.fields == {name: value for name, value in SOUND.items() if name != b"data"}


def test_data_that_rq_compressed_is_read_too() -> None:
    assert judge({**SOUND, b"data": zlib.compress(DATA)}).call == CALL


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("created_at", b"yesterday"),
        ("enqueued_at", b"\xff"),
        ("timeout", b"0"),
        ("timeout", b"-1"),
        ("timeout", b"9" * 5000),
        ("status", b"dancing"),
        ("retries_left", b"-1"),
        ("failure_ttl", b"1.5"),
        ("description", b"line\nline"),
        ("success_callback_name", b"os.getcwd"),
        ("webhooks", b"[]"),
        ("attempt", b"junk"),
        ("attempt", b" 1"),
        ("attempt", b"-1"),
        ("put_backs", b"1_0"),
        ("ttl", b"10"),
        ("meta", b"\x80\x04."),
        ("meta", encode([1])),
        ("exc_info", zlib.compress(b"\0" * 5_000_000)),
        ("data", b""),
        ("data", zlib.compress(b"\0" * 5_000_000)),
    ],
)
def test_one_bad_field_refuses_the_record_and_names_the_field(field: str, value: bytes) -> None:
    record = judge({**SOUND, field.encode(): value, b"retries_left": b"2"} | {field.encode(): value})
    assert record.refusal is not None
    assert field in record.refusal
    assert b"retries_left" not in record.fields
    assert field.encode() not in record.fields or field == "data"


@pytest.mark.parametrize(
    "parts",
    [
        ["os.system", None, ["true"], {}],
        [RUNNER, "instance", [b"", b""], {}],
        [RUNNER, None, [b"", b""], {"x": 1}],
        [RUNNER, None, [b""], {}],
        [RUNNER, None, ["", ""], {}],
        [RUNNER, None, [b"", b""]],
        [],
        "text",
    ],
)
def test_a_call_of_anything_but_the_runner_is_refused(parts: object) -> None:
    refusal = judge({**SOUND, b"data": encode(parts)}).refusal
    assert refusal is not None
    assert refusal.startswith("its data is no payload of ours")


def test_empty_fields_say_nothing() -> None:
    assert judge({**SOUND, b"success_callback_name": b"", b"started_at": b"", b"group_id": b""}).refusal is None


FIELDS = st.sampled_from([b"data", b"meta", b"exc_info", b"timeout", b"status", b"origin", b"created_at"])


@given(st.dictionaries(FIELDS, st.binary(max_size=300), max_size=6))
@example({})
@example({b"data": b"\xdd\xff\xff\xff\xff"})
def test_nothing_makes_the_judge_raise(raw: dict[bytes, bytes]) -> None:
    record = judge(raw)
    assert record.call is not None or record.refusal
