"""Signatures of payloads: what verifies, and what does not."""

from __future__ import annotations

import hashlib
import hmac

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.codec import decode
from shared.errors import ConfigurationError, RefusedPayloadError
from shared.payload import FireContext, pack_context, sealed_bin, unpack_context
from shared.settings import Settings, keyring, load
from shared.signature import UNSIGNED, Keyring, context_in

OLD, NEW = "an-old-key-long-enough", "k" * 40
FIXED, CONTEXT = b"fixed part", pack_context(FireContext(kind="dispatch", enqueued=1))
RING = Keyring.parse(NEW)
SEALED = RING.seal(CONTEXT, FIXED, "job-1")


def test_what_was_sealed_verifies_and_is_the_context_still() -> None:
    RING.verify(SEALED, FIXED, "job-1")
    assert context_in(SEALED) == CONTEXT
    assert unpack_context(SEALED) == FireContext(kind="dispatch", enqueued=1)


def test_the_signature_is_what_its_page_says() -> None:
    digests = hashlib.sha256(FIXED).digest() + hashlib.sha256(CONTEXT).digest()
    expected = hmac.new(NEW.encode(), b"rqbeat payload 1\n" + digests + b"job-1", "sha256").digest()
    assert msgpack.unpackb(SEALED) == [CONTEXT, expected]


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    ("sealed", "fixed", "job_id"),
    [
        (CONTEXT, FIXED, "job-1"),
        (Keyring.parse(OLD).seal(CONTEXT, FIXED, "job-1"), FIXED, "job-1"),
        (SEALED, FIXED, "job-2"),
        (SEALED, b"another part", "job-1"),
        (b"\x92" + msgpack.packb(CONTEXT + b" ") + SEALED[-34:], FIXED, "job-1"),
        (SEALED[:-1] + bytes([SEALED[-1] ^ 1]), FIXED, "job-1"),
        (SEALED[:-1], FIXED, "job-1"),
        (SEALED + b"\0", FIXED, "job-1"),
        (msgpack.packb([CONTEXT, b""]), FIXED, "job-1"),
        (msgpack.packb([CONTEXT, "text"]), FIXED, "job-1"),
        (msgpack.packb([CONTEXT, None]), FIXED, "job-1"),
    ],
    ids=["absent", "old", "replayed", "fixed", "context", "flipped", "cut", "longer", "empty", "text", "none"],
)
def test_a_signature_that_is_wrong_absent_old_or_of_another_job_is_refused(
    sealed: bytes, fixed: bytes, job_id: str
) -> None:
    with pytest.raises(RefusedPayloadError, match="signature"):
        RING.verify(sealed, fixed, job_id)


def test_the_first_key_signs_and_all_verify() -> None:
    both = Keyring.parse(f"{NEW},{OLD}")
    both.verify(Keyring.parse(OLD).seal(CONTEXT, FIXED, "j"), FIXED, "j")
    RING.verify(both.seal(CONTEXT, FIXED, "j"), FIXED, "j")


def test_without_a_key_nothing_is_signed_and_nothing_asked_for() -> None:
    assert decode(sealed_bin(CONTEXT, UNSIGNED, FIXED, "job-1")) == CONTEXT
    for sealed in (CONTEXT, SEALED):
        UNSIGNED.verify(sealed, FIXED, "job-1")


def test_keys_come_from_the_environment_alone_and_are_never_shown() -> None:
    settings = load(environ={"RQBEAT_PAYLOAD_KEY": f" {NEW}\n{OLD} "})
    assert settings.keyring.keys == (NEW.encode(), OLD.encode()) == keyring({"RQBEAT_PAYLOAD_KEY": f"{NEW},{OLD}"}).keys
    assert NEW not in repr(settings) + repr(settings.keyring)
    assert keyring({"RQBEAT_PAYLOAD_KEY": ""}) == keyring({}) == Settings().keyring == UNSIGNED


@pytest.mark.parametrize("text", ["secret-short", f"{NEW},secret-short"])
def test_a_key_that_is_too_short_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ConfigurationError, match="at least 16 characters") as caught:
        load(environ={"RQBEAT_PAYLOAD_KEY": text})
    assert "secret" not in str(caught.value)


def test_a_key_in_a_file_is_an_error(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "rqbeat.toml").write_text(f'payload_key = "{NEW}"')
    with pytest.raises(ConfigurationError, match="unknown setting payload_key"):
        load(environ={}, folder=tmp_path)


@given(st.binary(max_size=100).map(lambda rest: b"\x92" + rest) | st.binary(max_size=100))
def test_no_bytes_raise_anything_else(data: bytes) -> None:
    with pytest.raises(RefusedPayloadError):
        RING.verify(data, FIXED, "job-1")
