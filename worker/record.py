"""Judging a job's record before RQ reads it. Pure: bytes in, a verdict out; nothing here raises.

RQ reads a job hash field by field and raises on the first that does not parse, in places where that ends the worker; it
inflates `data` without bound, unpickles, imports callbacks by name and posts to webhooks. So no field reaches RQ that
was not looked at here, and a record is either one that we may run or refused with one reason.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from shared.codec import decode
from shared.errors import RefusedPayloadError
from shared.options import DAY, MAX_TIMEOUT
from shared.payload import MAX_DATA_BYTES, RUNNER, Call, FireContext, unpack_call, unpack_context
from shared.retry import MAX_RETRIES

MAX_FIELD_BYTES = 1024 * 1024
MAX_FIELDS = 64
STATUSES = frozenset(
    ("created", "queued", "finished", "failed", "started", "deferred", "scheduled", "stopped", "canceled")
)

_TEN_YEARS = 10 * 365 * DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """What was found in a job hash.

    `fields` are those that RQ may read, `data` the inflated payload. `refusal` says why the job must not run, None when
    it may; `bad` names the fields that no reader should meet again.
    """

    fields: Mapping[bytes, bytes]
    data: bytes = b""
    refusal: str | None = None
    bad: tuple[str, ...] = ()
    call: Call | None = None
    fire: FireContext | None = None


def judge(raw: Mapping[bytes, bytes]) -> Record:
    """The verdict on a job hash as Redis holds it."""
    finding = _Finding()
    fields = {name: value for name, value in raw.items() if _keep(name, value, finding)}
    data = _inflated(raw.get(b"data"), finding)
    call, fire = _payload(data, finding) if data is not None else (None, None)
    if finding.reasons:
        fields.pop(b"retries_left", None)
    return Record(
        fields=fields,
        data=data or b"",
        refusal="; ".join(finding.reasons)[:1000] or None,
        bad=tuple(finding.bad),
        call=call,
        fire=fire,
    )


@dataclass(slots=True)
class _Finding:
    reasons: list[str] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)

    def refuse(self, name: str, reason: str) -> None:
        self.bad.append(name)
        self.reasons.append(reason)


def _keep(name: bytes, value: bytes, finding: _Finding) -> bool:
    """Whether RQ may read this field. Unknown ones never reach it; empty ones say nothing."""
    check = _FIELDS.get(name)
    if check is None or not value:
        return False
    try:
        problem = check(value)
    except (ValueError, zlib.error):
        problem = f"can't be read: {value[:60]!r}"
    if problem:
        finding.refuse(name.decode(), f"its field {name.decode()} {problem}")
    return not problem


def _inflated(data: bytes | None, finding: _Finding) -> bytes | None:
    """RQ compresses what it saves and takes data that is not compressed as it is; so do we, within a bound."""
    if data is None:
        finding.refuse("data", "it has no data")
        return None
    inflated = _inflate(data, MAX_DATA_BYTES)
    if inflated is None:
        finding.refuse("data", f"its data is larger than {MAX_DATA_BYTES:,} bytes")
    return inflated


def _inflate(data: bytes, limit: int) -> bytes | None:
    """The plain bytes, None when there are more than `limit`; at most one byte more is ever made."""
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, limit + 1)
    except zlib.error:
        plain = data
    else:
        plain = plain if stream.eof or len(plain) > limit else data
    return plain if len(plain) <= limit else None


def _payload(data: bytes, finding: _Finding) -> tuple[Call | None, FireContext | None]:
    try:
        fixed, context = _arguments(decode(data, MAX_DATA_BYTES))
        return unpack_call(fixed), unpack_context(context)
    except RefusedPayloadError as error:
        finding.reasons.append(f"its data is no payload of ours: {error}")
        return None, None


def _arguments(value: object) -> tuple[bytes, bytes]:
    """The two arguments of a call of the runner; anything else would be code named by a payload."""
    if not isinstance(value, list) or len(value) != 4:
        raise RefusedPayloadError("expected [function, instance, arguments, keywords]")
    name, instance, args, kwargs = value
    if name != RUNNER or instance is not None or kwargs != {}:
        raise RefusedPayloadError(f"it calls {name!r:.100}, and workers call {RUNNER} alone")
    if not isinstance(args, list) or len(args) != 2 or not all(isinstance(item, bytes) for item in args):
        raise RefusedPayloadError(f"{RUNNER} takes two byte strings")
    return args[0], args[1]


# One check per field that RQ reads, or that a script counts up: the problem in words, or None.


def _text(value: bytes) -> str | None:
    return None if len(value) <= 4096 and value.decode().isprintable() else "is no short text"


def _date(value: bytes) -> str | None:
    text = value.decode()
    datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ" if "." in text else "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - parsed to be judged
    return None


def _status(value: bytes) -> str | None:
    return None if value.decode() in STATUSES else f"is {value[:60]!r}, which RQ does not know"


def _whole(least: int, most: int) -> Callable[[bytes], str | None]:
    def check(value: bytes) -> str | None:
        if len(value) > 20 or not least <= int(value) <= most:
            return f"must lie between {least} and {most}, it is {value[:60]!r}"
        return None

    return check


def _counter(value: bytes) -> str | None:
    """Ours: Redis counts them up, and takes no other spelling of a number."""
    return None if re.fullmatch(rb"0|[1-9][0-9]{0,14}", value) else f"is no count, it is {value[:60]!r}"


def _meta(value: bytes) -> str | None:
    try:
        return None if isinstance(decode(value), dict) else "is no map"
    except RefusedPayloadError as error:
        return f"is refused: {error}"


def _exc_info(value: bytes) -> str | None:
    inflated = _inflate(value, MAX_FIELD_BYTES)
    if inflated is None:
        return "is too large"
    inflated.decode()
    return None


def _none(_value: bytes) -> str:
    return "is not allowed: workers run no callbacks, webhooks, dependencies, groups or repeats of RQ's"


_FIELDS: dict[bytes, Callable[[bytes], str | None]] = {
    **dict.fromkeys((b"created_at", b"enqueued_at", b"started_at", b"ended_at", b"last_heartbeat"), _date),
    **dict.fromkeys((b"origin", b"description", b"worker_name"), _text),
    **dict.fromkeys((b"result_ttl", b"failure_ttl"), _whole(-1, _TEN_YEARS)),
    **dict.fromkeys((b"retries_left", b"number_of_retries"), _whole(0, MAX_RETRIES)),
    **dict.fromkeys((b"enqueue_at_front", b"enqueue_at_front_on_retry"), _whole(0, 1)),
    **dict.fromkeys((b"success_callback_name", b"failure_callback_name", b"stopped_callback_name", b"webhooks"), _none),
    **dict.fromkeys((b"dependency_id", b"dependency_ids", b"group_id", b"repeats_left", b"rate_limit_key"), _none),
    **dict.fromkeys((b"attempt", b"put_backs"), _counter),
    b"ttl": _none,
    b"timeout": _whole(1, MAX_TIMEOUT),
    b"status": _status,
    b"meta": _meta,
    b"exc_info": _exc_info,
}
