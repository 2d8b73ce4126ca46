"""The outbox that puts dispatched jobs into Redis, and the promotion of delayed ones when they are due."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from typing import Any, cast

import redis

from shared import settings
from shared.clock import Clock, SystemClock
from shared.errors import StoreRefusedError, StoreUnavailableError
from shared.keys import Keys
from shared.outbox import Receipt, Request
from shared.payload import DATA_TAIL, FireContext, data_head, pack_context, sealed_bin
from shared.redisio.connection import connect, store_errors, text
from shared.redisio.records import job_fields, returned, stamp
from shared.redisio.scripts import Script, pack
from shared.signature import Keyring

AT_ONCE = 1000
PROMOTION_MARK_MS = 2000
PROMOTED_AT_ONCE = 500


class RedisOutbox:
    """Sends jobs to one Redis. Safe to share between threads; blocks for one round trip for each 1,000 jobs."""

    def __init__(
        self, client: redis.Redis, keys: Keys, clock: Clock | None = None, keyring: Keyring | None = None
    ) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock or SystemClock()
        self._keyring = settings.keyring() if keyring is None else keyring
        self._script = Script(client, "dispatch")

    @classmethod
    def from_settings(cls) -> RedisOutbox:
        """The outbox of the settings in force here and now."""
        found = settings.load()
        return cls(connect(found.url, name="rqbeat-dispatch"), found.keys, keyring=found.keyring)

    def send(self, requests: Sequence[Request]) -> list[Receipt]:
        """The jobs in their order, 1,000 in one step: all of these or none.

        Where a reply was lost, what it was for is sent once more; the script makes that harmless.
        """
        batches = [requests[begin : begin + AT_ONCE] for begin in range(0, len(requests), AT_ONCE)]
        receipts: list[Receipt] = []
        try:
            self._send(batches, receipts)
        except StoreUnavailableError:
            self._send(batches[len(receipts) // AT_ONCE :], receipts)
        return receipts

    def _send(self, batches: Sequence[Sequence[Request]], receipts: list[Receipt]) -> None:
        """Send these, and add what became of them as it becomes known."""
        calls = (([self._keys.rq_queues], self._packed(batch)) for batch in batches)
        for batch, (code, reply) in zip(batches, self._script.each(calls), strict=True):
            if code != b"ok":
                raise StoreRefusedError(f"nothing was dispatched{_after(receipts)}: {reply.decode()}")
            others = {index - 1: job_id.decode() for index, job_id in reply}
            receipts += [
                Receipt(others.get(index, request.job_id), index not in others) for index, request in enumerate(batch)
            ]

    def status(self, job_id: str) -> str | None:
        with store_errors():
            found = self._client.hget(self._keys.rq_job(job_id), "status")
        return None if found is None else text(found)

    def result(self, job_id: str, timeout: float) -> Any:
        """Waits in slices shorter than the client's own limit for a reply."""
        ends = self._clock.monotonic() + timeout
        while True:
            entry = self._latest_result(job_id)
            if entry is not None:
                return returned(job_id, entry)
            left = ends - self._clock.monotonic()
            if left <= 0:
                raise TimeoutError(f"job {job_id} has not ended within {timeout:g} s")
            self._wait_for_result(job_id, min(left, 1.0))

    def _latest_result(self, job_id: str) -> dict[bytes, bytes] | None:
        with store_errors():
            entries = self._client.xrevrange(self._keys.rq_results(job_id), count=1)
        return cast("dict[bytes, bytes]", entries[0][1]) if entries else None

    def _wait_for_result(self, job_id: str, seconds: float) -> None:
        with store_errors():
            self._client.xread({self._keys.rq_results(job_id): "0"}, count=1, block=max(1, int(seconds * 1000)))

    def _packed(self, requests: Sequence[Request]) -> list[bytes]:
        """The arguments of one call."""
        now, keys = self._clock.now_ms(), self._keys
        shared = _Shared(now)
        jobs = [self._job(request, shared, now) for request in requests]
        header = {
            "stamp": stamp(now),
            "queue": keys.rq_queue_prefix,
            "live": keys.live_prefix,
            "job": keys.rq_job_prefix,
            "scheduled": keys.rq_scheduled_prefix,
            "dedupe": keys.dispatch_prefix,
            "kinds": shared.kinds,
        }
        return [pack(header), pack(jobs)]

    def _job(self, request: Request, shared: _Shared, now: int) -> list[object]:
        sealed = sealed_bin(shared.context(request), self._keyring, request.fixed, request.job_id)
        return [
            shared.kind(request),
            request.job_id,
            data_head(request.fixed) + sealed + DATA_TAIL,
            (now + request.delay_ms) / 1000 if request.delay_ms else 0,
            request.dedupe_key or False,
            request.dedupe_ttl_ms,
        ]


class _Shared:
    """What jobs of one call have in common, made once: kinds, which are told once and numbered from 1, and contexts."""

    def __init__(self, now: int) -> None:
        self.kinds: list[object] = []
        self._now = now
        self._numbers: dict[object, int] = {}
        self._contexts: dict[object, bytes] = {}

    def kind(self, request: Request) -> int:
        call, options = request.call, request.options
        alike = (call.job, options, call.retry.max if call.retry else 0)
        if alike not in self._numbers:
            self.kinds.append([options.queue, job_fields(call.job, options, call.retry), options.at_front])
            self._numbers[alike] = len(self.kinds)
        return self._numbers[alike]

    def context(self, request: Request) -> bytes:
        alike = (request.deadline, request.expires_in_ms)
        if alike not in self._contexts:
            deadline = _deadline(request, self._now)
            self._contexts[alike] = pack_context(FireContext(kind="dispatch", enqueued=self._now, deadline=deadline))
        return self._contexts[alike]


class Promoter:
    """Moves due retries and delayed jobs to their queues. Any process may call it, any number at once.

    Of several polite ones, one goes on and the others leave it to that one, until it is silent for two seconds.
    """

    def __init__(self, client: redis.Redis, keys: Keys, clock: Clock | None = None) -> None:
        self._keys = keys
        self._clock = clock or SystemClock()
        self._caller = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"
        self._script = Script(client, "promote")

    def __call__(self, *, polite: bool) -> int:
        """How many jobs were moved. A polite caller leaves at once when somebody else promoted within two seconds."""
        moved, more = self._step(polite=polite)
        while more:
            step, more = self._step(polite=False)
            moved += step
        return moved

    def _step(self, *, polite: bool) -> tuple[int, int]:
        keys = self._keys
        arguments = {
            "queue": keys.rq_queue_prefix,
            "live": keys.live_prefix,
            "job": keys.rq_job_prefix,
            "scheduled": keys.rq_scheduled_prefix,
            "stamp": stamp(self._clock.now_ms()),
            "most": PROMOTED_AT_ONCE,
            "mark_ms": PROMOTION_MARK_MS,
            "caller": self._caller,
            "polite": polite,
        }
        moved, more = self._script([keys.rq_queues, keys.promoted], [pack(arguments)])
        return moved, more


def _after(sent: Sequence[Receipt]) -> str:
    return f" after the first {len(sent):,}" if sent else ""


def _deadline(request: Request, now: int) -> int | None:
    """The earlier of the instant and the duration that the caller named; the duration runs from the dispatch."""
    named = [request.deadline, None if request.expires_in_ms is None else now + request.expires_in_ms]
    return min((instant for instant in named if instant is not None), default=None)
