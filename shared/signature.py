"""Signatures of payloads, by a key that senders and workers share: who can write to Redis alone can't have a job run.

A signature covers the fixed part, the fire's context and the job's id, so that none of them can be exchanged, nor an
old payload be sent again under another id. It travels in the context's place, `[context, signature]`, and is the
HMAC-SHA256 of the name of this format, the SHA-256 of both parts and the id.

The first key of a ring signs and all of them verify: a new key goes in front, and the old one is taken away when no job
that it signed waits any more. A worker without a key reads signed payloads and verifies none.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from dataclasses import dataclass, field

import msgpack

from shared.errors import ConfigurationError, RefusedPayloadError

LEAST_CHARACTERS = 16
_FORMAT = b"rqbeat payload 1\n"
_SIGNED = b"\x92"
"""How a list of two begins; a context alone is a map."""


@dataclass(frozen=True, slots=True)
class Keyring:
    """The keys in force, the one that signs first; none at all: nothing is signed or asked for."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)

    @classmethod
    def parse(cls, text: str) -> Keyring:
        """The keys in a setting, separated by commas or blanks. Raises ConfigurationError, which shows none of them."""
        found = [key.encode(errors="surrogateescape") for key in re.split(r"[,\s]+", text) if key]
        if any(len(key) < LEAST_CHARACTERS for key in found):
            raise ConfigurationError(f"RQBEAT_PAYLOAD_KEY: each key has at least {LEAST_CHARACTERS} characters")
        return cls(tuple(found))

    def seal(self, context: bytes, fixed: bytes, job_id: str) -> bytes:
        """A context with its signature by the first key."""
        signature = _signature(self.keys[0], context, fixed, job_id)
        return b"".join((_SIGNED, msgpack.packb(context), msgpack.packb(signature)))

    def verify(self, sealed: bytes, fixed: bytes, job_id: str) -> None:
        """Raises RefusedPayloadError unless there is no key, or one of them has signed exactly this."""
        if not self.keys:
            return
        if not sealed.startswith(_SIGNED):
            raise RefusedPayloadError("its payload has no signature, and this worker asks for one")
        context, signature = _parts(sealed)
        wanted = [_signature(key, context, fixed, job_id) for key in self.keys]
        if not any(hmac.compare_digest(one, signature) for one in wanted):
            raise RefusedPayloadError("the signature of its payload is none by a key of this worker for this job")


UNSIGNED = Keyring()


def context_in(sealed: bytes) -> bytes:
    """The context, with a signature or without. Raises RefusedPayloadError."""
    return _parts(sealed)[0] if sealed.startswith(_SIGNED) else sealed


def _parts(sealed: bytes) -> tuple[bytes, bytes]:
    try:
        context, signature = msgpack.unpackb(sealed)
    except (ValueError, TypeError, msgpack.UnpackException):
        context = signature = None
    if not isinstance(context, bytes) or not isinstance(signature, bytes):
        raise RefusedPayloadError("a signed context is two byte strings, the second one its signature")
    return context, signature


def _signature(key: bytes, context: bytes, fixed: bytes, job_id: str) -> bytes:
    digests = hashlib.sha256(fixed).digest() + hashlib.sha256(context).digest()
    return hmac.digest(key, _FORMAT + digests + job_id.encode(), "sha256")
