"""The port through which a dispatched job leaves the process.

`Job.dispatch` speaks to whatever stands here: by default Redis, connected at the first use by the settings then in
force; in eager tests a stand-in that runs the job on the spot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from shared.options import JobOptions
from shared.payload import Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One job to be sent: `fixed` is its call, packed. `delay_ms` and `dedupe_ttl_ms` are durations, `deadline` an
    instant, all in ms."""

    job_id: str
    call: Call
    fixed: bytes
    options: JobOptions
    delay_ms: int = 0
    expires_in_ms: int | None = None
    deadline: int | None = None
    dedupe_key: str | None = None
    dedupe_ttl_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a request: the id of the job that stands for it, and whether this request made it."""

    job_id: str
    created: bool


class Outbox(Protocol):
    """Sends jobs and tells what became of them."""

    def send(self, requests: Sequence[Request]) -> list[Receipt]:
        """Put jobs where workers find them, in order, all in one step."""
        ...

    def status(self, job_id: str) -> str | None:
        """RQ's word for where a job stands, or None when its record is gone."""
        ...

    def result(self, job_id: str, timeout: float) -> Any:
        """What a job returned, waiting for it at most `timeout` seconds."""
        ...


class _Current:
    outbox: Outbox | None = None


def current_outbox() -> Outbox:
    """The outbox in use; connects to Redis when none was set."""
    if _Current.outbox is None:
        from shared.redisio.dispatch import RedisOutbox  # noqa: PLC0415 - redis is loaded by those who send

        _Current.outbox = RedisOutbox.from_settings()
    return _Current.outbox


def is_eager() -> bool:
    """Whether jobs run in this process, so that no other has to find them."""
    return bool(getattr(_Current.outbox, "is_eager", False))


@contextmanager
def using_outbox(outbox: Outbox) -> Iterator[None]:
    """Send through `outbox` within the block."""
    before, _Current.outbox = _Current.outbox, outbox
    try:
        yield
    finally:
        _Current.outbox = before


def set_outbox(outbox: Outbox | None) -> None:
    """Send through `outbox` from now on; None connects anew at the next use."""
    _Current.outbox = outbox
