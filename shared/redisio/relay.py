"""From one run to the next in one step: what a worker needs that runs job after job in one process.

`Intake` takes and claims with one call each, and RQ writes the end of a run in some thirty commands. Here the end of a
run that returned and the beginning of the next are one script of about a dozen. What does not fit, a record that must
be refused or an id that is none, is left on the list of taken ids for `Intake`; a run that failed is left to RQ.

The records are RQ's own, field by field, but for one thing: a run has an execution of its own (`write_execution`) only
once it has lasted a while. Its lease in the registry of running jobs is there from its first moment.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import redis

from shared.clock import Clock, SystemClock
from shared.keys import Keys
from shared.redisio.connection import store_errors
from shared.redisio.intake import MAX_FIELD_BYTES, MAX_FIELDS
from shared.redisio.records import stamp
from shared.redisio.scripts import Script, pack, unpack

Was = Literal["ended", "lost", "gone", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A run that returned. `value` is the encoded result, None for none; `started` and `ended` are epoch ms.

    `is_written`: the run may have an execution of its own. `stale` are fields of the record that its success outdates.
    """

    job_id: str
    token: str
    ttl: int
    value: bytes | None
    started: int
    ended: int
    schedule: str | None
    is_written: bool
    is_first: bool
    stale: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taking:
    """Who begins a run, under which token, and when (epoch ms). `entry` is an id that was popped, else one is taken."""

    worker: str
    token: str
    at: int
    lease_seconds: int
    entry: bytes | None = None
    begun: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """What became of the ending, and what there is to do next: a run that began, an id for `Intake`, or nothing."""

    was: Was = "none"
    dropped: Mapping[bytes, bytes] = field(default_factory=dict)
    entry: bytes | None = None
    job_id: str | None = None
    attempt: int = 0
    checkpoint: bytes = b""
    fields: Mapping[bytes, bytes] = field(default_factory=dict)
    error: str | None = None

    @property
    def is_nothing(self) -> bool:
        """Whether the queue was empty, and nothing was dropped on the way to see that."""
        return self.job_id is None and self.entry is None and self.error is None and not self.dropped


class Relay:
    """One queue's. Each call blocks for one round trip and raises StoreError."""

    def __init__(self, client: redis.Redis, keys: Keys, queue: str, clock: Clock | None = None) -> None:
        self._client = client
        self._keys = keys
        self._queue = queue
        self._clock = clock or SystemClock()
        self._next = Script(client, "run_next")
        self._unclaim = Script(client, "run_unclaim")
        self._written = Script(client, "run_written")
        self._queue_keys = [keys.rq_queue(queue), keys.rq_taken(queue), keys.live_prefix + queue]
        self._queue_keys += [keys.rq_registry("wip", queue), keys.rq_registry("finished", queue)]
        self._failed, self._expired = keys.rq_registry("failed", queue), f"{keys.expired_prefix}{queue}"

    def __call__(self, ending: Ending | None, taking: Taking | None, worker: str) -> Next:
        """End a run, begin the next, or both. When the reply was lost: end again alone, and see `begun_as`."""
        names = self._queue_keys + ([] if ending is None else self._ending_keys(ending, worker))
        ends = None if ending is None else self._ending_arguments(ending, worker)
        takes = None if taking is None else self._taking_arguments(taking)
        reply = self._next(names, [pack({"ending": ends, "taking": takes})])
        was, dropped, kind, found = unpack(reply)
        return _next(was.decode(), dropped, kind, found)

    def begun_as(self, token: str) -> str | None:
        """The id of the job whose run began under a token and has not ended."""
        with store_errors():
            found = self._client.zscan_iter(self._keys.rq_registry("wip", self._queue), match=f"*:{token}", count=1000)
            members = [cast("bytes", member) for member, _ in found]
        return members[0].partition(b":")[0].decode() if members else None

    def unclaim(self, job_id: str, token: str) -> bool:
        """Put a run whose handler was not called yet back to the list of taken ids; False when it is in another run."""
        names = [self._keys.rq_job(job_id), self._keys.rq_taken(self._queue), self._queue_keys[3], self._queue_keys[2]]
        return bool(self._unclaim(names, [job_id, token]))

    def write_execution(self, job_id: str, token: str, worker: str, started: float, ttl: int) -> bool:
        """Write RQ's records of a run that lasts; False when it has ended meanwhile. `started` in epoch seconds."""
        now = self._clock.now_ms() / 1000
        fields = {"id": token, "job_id": job_id, "created_at": started, "last_heartbeat": now, "worker_name": worker}
        arguments = {
            "member": f"{job_id}:{token}",
            "token": token,
            "ttl": ttl,
            "until": now + ttl,
            "fields": [str(text) for pair in fields.items() for text in pair],
        }
        names = [self._queue_keys[3], *self._execution_keys(job_id, token, worker)]
        return bool(self._written(names, [pack(arguments)]))

    def forget_begun(self, job_ids: Sequence[str]) -> None:
        """Take jobs off the list of those that have not begun."""
        if job_ids:
            with store_errors():
                self._client.zrem(self._queue_keys[2], *job_ids)

    def _execution_keys(self, job_id: str, token: str, worker: str) -> list[str]:
        keys = self._keys
        return [keys.rq_execution(job_id, token), keys.rq_executions(job_id), keys.rq_worker_executions(worker)]

    def _ending_keys(self, ending: Ending, worker: str) -> list[str]:
        keys, schedule = self._keys, ending.schedule or ""
        names = [keys.rq_job(ending.job_id), keys.rq_results(ending.job_id)]
        names += [*self._execution_keys(ending.job_id, ending.token, worker), self._failed, self._expired]
        own = (keys.schedule_prefix, keys.stats_prefix, keys.outstanding_prefix, keys.waiting_prefix)
        return [*names, *(f"{prefix}{schedule}" for prefix in own), keys.wake]

    def _ending_arguments(self, ending: Ending, worker: str) -> dict[str, Any]:
        result: dict[str, Any] = {
            "type": "1",
            "worker_name": worker,
            "execution_id": ending.token,
            "execution_started_at": str(ending.started / 1000),
            "execution_ended_at": str(ending.ended / 1000),
        }
        if ending.value is not None:
            result["return_value"] = base64.b64encode(ending.value)
        return {
            "id": ending.job_id,
            "token": ending.token,
            "stamp": stamp(ending.ended),
            "ttl": ending.ttl,
            "kept_until": ending.ended // 1000 + ending.ttl,
            "result": [part for pair in result.items() for part in pair],
            "written": ending.is_written,
            "stale": list(ending.stale),
            "outcome": "finished",
            "scheduled": ending.schedule is not None,
            "clean": ending.is_first,
        }

    def _taking_arguments(self, taking: Taking) -> dict[str, Any]:
        return {
            "job": self._keys.rq_job_prefix,
            "checkpoint": self._keys.checkpoint(""),
            "worker": taking.worker,
            "stamp": stamp(taking.at),
            "token": taking.token,
            "lease_until": taking.at // 1000 + taking.lease_seconds,
            "begun": list(taking.begun),
            "entry": taking.entry,
            "fields": MAX_FIELDS,
            "bytes": MAX_FIELD_BYTES,
        }


def _next(was: Was, dropped: Sequence[bytes], kind: bytes, found: Any) -> Next:
    lost = dict(zip(dropped[::2], dropped[1::2], strict=True))
    if kind == b"entry":
        return Next(was=was, dropped=lost, entry=found)
    if kind == b"error":
        return Next(was=was, dropped=lost, error=found.decode(errors="replace"))
    if kind != b"job":
        return Next(was=was, dropped=lost)
    job_id, attempt, checkpoint, flat = found
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    return Next(
        was=was, dropped=lost, job_id=job_id.decode(), attempt=attempt, checkpoint=checkpoint or b"", fields=fields
    )
