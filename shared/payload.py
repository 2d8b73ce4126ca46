"""What travels with a job: two byte strings, the fixed part and the fire's context.

The fixed part (`Call`) is the same for every fire of a schedule, so it is encoded once and kept in Redis beside the
schedule; the context (`FireContext`) is small and made per fire. RQ sees a call of one fixed function with these two
as arguments, so no payload names code: the fixed part holds the registered name of a job, and a name is only ever
looked up in a registry.

    RQ's `data`   [RUNNER, nil, [fixed part, context], {}]
    fixed part    {"v": 1, "job": name, "args": […], "kwargs": {…}, "retry": {…} | nil, "middleware": […]}
    context       {"v": 1, "schedule": id, "nominal": ms, …}: the fields of FireContext, absent where they are None;
                  signed: [context, signature]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from itertools import count
from typing import Any, cast

import msgpack

from shared.codec import MAX_DEPTH, check, decode, pack
from shared.errors import ConfigurationError, RefusedPayloadError
from shared.ids import Kind
from shared.retry import Retry
from shared.signature import UNSIGNED, Keyring, context_in

VERSION = 1
RUNNER = "worker.execute.run"
MAX_DATA_BYTES = 260 * 1024  # the fixed part at its largest, a context, and what RQ puts around them


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """The fixed part: which job, with which arguments, under which retry rule and middleware."""

    job: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    retry: Retry | None = None
    middleware: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FireContext:
    """Which fire a job belongs to. All instants are epoch milliseconds.

    `schedule` and `nominal` are None for a job that was dispatched; `previous` and `next` are the nominal times beside
    this one; after `deadline` the job must not start.
    """

    kind: Kind
    enqueued: int
    schedule: str | None = None
    nominal: int | None = None
    previous: int | None = None
    next: int | None = None
    deadline: int | None = None
    trace: str | None = None


def pack_call(call: Call, path_of: Callable[[int], str] = "args[{}]".format) -> bytes:
    """The fixed part. Raises PayloadError for what can't travel, with its path: `path_of` names positions."""
    data = {
        "v": VERSION,
        "job": call.job,
        "args": list(call.args),
        "kwargs": dict(call.kwargs),
        "retry": call.retry.to_data() if call.retry else None,
        "middleware": list(call.middleware),
    }
    seen = count(1)
    for position, value in enumerate(call.args):
        check(value, path_of(position), MAX_DEPTH - 2, seen)
    check(data["kwargs"], "kwargs", MAX_DEPTH - 1, seen)
    check(data["middleware"], "middleware")
    return pack(data, "arguments")


def unpack_call(data: bytes) -> Call:
    """The call in a fixed part. Raises RefusedPayloadError."""
    value = _versioned(data, "fixed part")
    try:
        retry = Retry.from_data(value["retry"]) if value["retry"] else None
        return Call(
            job=_text(value["job"]),
            args=tuple(value["args"]),
            kwargs=dict(value["kwargs"]),
            retry=retry,
            middleware=tuple(value["middleware"]),
        )
    except (KeyError, TypeError, ValueError, ConfigurationError) as error:
        raise RefusedPayloadError(f"fixed part: {error!r:.200}") from None


def pack_context(context: FireContext, enqueued: int | None = None) -> bytes:
    """The context, small and quick to make: one per fire. `enqueued` (ms) stands in for when it was planned."""
    value = {name: item for name in _CONTEXT_FIELDS if (item := getattr(context, name)) is not None}
    value["v"] = VERSION
    if enqueued is not None:
        value["enqueued"] = enqueued
    return cast("bytes", msgpack.packb(value))


def unpack_context(data: bytes) -> FireContext:
    """The context in some bytes, signed or not: no signature is looked at here. Raises RefusedPayloadError."""
    value = _versioned(context_in(data), "context")
    del value["v"]
    try:
        context = FireContext(**value)
    except TypeError as error:
        raise RefusedPayloadError(f"context: {error!s:.200}") from None
    _check_context(context)
    return context


def data_head(fixed: bytes) -> bytes:
    """RQ's `data` up to where the context stands; `data` is head + `context_bin` + `DATA_TAIL`."""
    packed: bytes = msgpack.packb(fixed, use_bin_type=True)
    return _BEFORE_FIXED + packed


def context_bin(context: FireContext, enqueued: int | None = None) -> bytes:
    """The context as it stands inside RQ's `data`."""
    return sealed_bin(pack_context(context, enqueued), UNSIGNED, b"", "")


def sealed_bin(packed: bytes, keyring: Keyring, fixed: bytes, job_id: str) -> bytes:
    """A packed context as it stands there; signed, with the fixed part and the job's id, if there is a key."""
    sealed = keyring.seal(packed, fixed, job_id) if keyring.keys else packed
    return cast("bytes", msgpack.packb(sealed, use_bin_type=True))


DATA_TAIL = b"\x80"  # the empty map of keyword arguments
_BEFORE_FIXED: bytes = b"\x94" + msgpack.packb(RUNNER) + msgpack.packb(None) + b"\x92"
"""A list of four, whose third item is a list of two."""


def data_of(call: Call, context: FireContext) -> bytes:
    """RQ's `data` of one job, unsigned."""
    return data_head(pack_call(call)) + context_bin(context) + DATA_TAIL


_CONTEXT_FIELDS = tuple(item.name for item in fields(FireContext))
_KINDS = ("scheduled", "catchup", "manual", "backfill", "dispatch")


def _versioned(data: bytes, what: str) -> dict[str, Any]:
    value = decode(data)
    if not isinstance(value, dict):
        raise RefusedPayloadError(f"{what}: expected a map, got a {type(value).__name__}")
    if value.get("v") != VERSION:
        raise RefusedPayloadError(f"{what}: version {value.get('v')!r:.20}, this worker reads version {VERSION}")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise RefusedPayloadError(f"a job's name is text, got {value!r:.60}")
    return value


def _check_context(context: FireContext) -> None:
    instants = (context.enqueued, context.nominal, context.previous, context.next, context.deadline)
    if context.kind not in _KINDS or not all(item is None or type(item) is int for item in instants):
        raise RefusedPayloadError(f"context: {context!r:.300}")
    if not all(item is None or type(item) is str for item in (context.schedule, context.trace)):
        raise RefusedPayloadError(f"context: {context!r:.300}")
