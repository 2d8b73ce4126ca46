"""How jobs come to a worker: popped, looked at, claimed, put back, refused. Each is one atomic step.

An id that was popped lies on RQ's list of taken ids until its run begins (`claim`), so that a kill at any point leaves
it either there, to be put back, or started under a lease, to be recovered. Only `claim` moves a job from queued to
started, and only from queued: an id that is on lists twice, or is held by two workers, runs once.

Fields of ours in RQ's job hash, which RQ neither reads nor clears:

    attempt      how many runs have begun        claim       the token of the run that began last
    put_backs    how often it was put back       last_error  the last line of what ended the run before
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, cast

import redis

from shared.clock import Clock, SystemClock
from shared.errors import StoreUnavailableError
from shared.keys import Keys
from shared.options import DAY
from shared.redisio.connection import store_errors
from shared.redisio.records import stamp
from shared.redisio.scripts import Script, pack

MAX_FIELDS = 64
MAX_FIELD_BYTES = 1024 * 1024
MAX_PUT_BACKS = 20
MAINTENANCE_TURN = 15
KEEP_REFUSED = 7 * DAY

_JOB_ID = re.compile(rb"[A-Za-z0-9_-]{1,500}")

PutBack = Literal["back", "held", "dropped", "worn"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a pop yielded: `job_id` with its record's `fields` to run, or a `reason` why this can't be a job to run.

    `entry` is the id as it stands on the list.
    """

    entry: bytes
    job_id: str
    fields: Mapping[bytes, bytes]
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """A run that began: `now` in epoch ms by Redis' clock, which attempt it is, and what earlier ones left behind."""

    now: int
    attempt: int
    last_error: str | None
    checkpoint: bytes


class Intake:
    """One queue's way in. Safe to share between threads; raises StoreError."""

    def __init__(self, client: redis.Redis, keys: Keys, queue: str, clock: Clock | None = None) -> None:
        self._client = client
        self._keys = keys
        self._queue = queue
        self._clock = clock or SystemClock()
        self._take = Script(client, "run_take")
        self._claim = Script(client, "run_claim")
        self._put_back = Script(client, "run_put_back")
        self._refuse = Script(client, "run_refuse")

    def pop(self, block_seconds: float | None) -> bytes | None:
        """The next id, moved to the list of taken ids; None when there is none. Blocks for up to `block_seconds`."""
        source, target = self._keys.rq_queue(self._queue), self._keys.rq_taken(self._queue)
        with store_errors():
            if block_seconds is None:
                return cast("bytes | None", self._client.lmove(source, target))
            return cast("bytes | None", self._client.blmove(source, target, block_seconds))  # type: ignore[arg-type]

    def look_at(self, entry: bytes) -> Taken | str:
        """What a popped id stands for; text says why it was dropped instead."""
        if not _JOB_ID.fullmatch(entry):
            reason = f"the queue held {entry[:60]!r} where a job's id belongs"
            return Taken(entry=entry, job_id=_stand_in(entry), fields={}, reason=reason)
        job_id = entry.decode()
        code, detail = self._take(
            [self._keys.rq_taken(self._queue), self._keys.rq_job(job_id)], [entry, MAX_FIELDS, MAX_FIELD_BYTES]
        )
        if code == b"dropped":
            return cast("str", detail.decode(errors="replace"))
        if code == b"refused":
            return Taken(entry=entry, job_id=job_id, fields={}, reason=detail.decode(errors="replace"))
        return Taken(entry=entry, job_id=job_id, fields=dict(zip(detail[::2], detail[1::2], strict=True)))

    def claim(self, job_id: str, worker: str, token: str) -> Begun | None:
        """Begin the run of a job. None when somebody else did, or it waits no more.

        When the reply was lost, ask again with the same `token`: the answer is the same.
        """
        names = self._keys
        keys = [names.rq_job(job_id), names.rq_taken(self._queue), names.checkpoint(job_id)]
        keys.append(names.live_prefix + self._queue)
        found = self._claim(keys, [job_id, worker, stamp(self._clock.now_ms()), token])
        if not found:
            return None
        now, attempt, error, checkpoint = found
        error = error.decode(errors="replace") or None
        return Begun(now=now, attempt=attempt, last_error=error, checkpoint=checkpoint)

    def running_as(self, job_id: str) -> str | None:
        """The token of the run that a job is in, None when it is in none."""
        with store_errors():
            status, token = cast("list[bytes | None]", self._client.hmget(self._keys.rq_job(job_id), "status", "claim"))
        return token.decode(errors="replace") if status == b"started" and token is not None else None

    def put_back(self, job_id: str, *, now: float | None = None) -> PutBack:
        """Return a job that never started to the front of its queue, without using up an attempt.

        With `now` (seconds, Redis' clock), only when no living worker holds it. "worn": it was put back so often that
        whoever takes it seems to die of it; it is still on the list of taken ids.
        """
        keys = self._keys
        names = [keys.rq_taken(self._queue), keys.rq_queue(self._queue), keys.rq_job(job_id)]
        names += [keys.rq_executions(job_id), keys.rq_registry("wip", self._queue)]
        return cast(
            "PutBack", self._put_back(names, [job_id, "" if now is None else f"{now:.3f}", MAX_PUT_BACKS]).decode()
        )

    def refuse(self, job_id: str, reason: str, *, entry: bytes | None = None, bad: Sequence[str] = ()) -> None:
        """Make a failed job of it, with one reason; the fields in `bad` are removed from its record."""
        keys, packed = self._keys, zlib.compress(reason.encode(errors="replace"))
        arguments = {
            "taken": job_id if entry is None else entry,
            "id": job_id,
            "queue": self._queue,
            "reason": reason[:500],
            "exc_info": packed,
            "exc_string": base64.b64encode(packed),
            "stamp": stamp(self._clock.now_ms()),
            "bad": list(bad),
            "keep": KEEP_REFUSED,
        }
        names = [keys.rq_taken(self._queue), keys.rq_job(job_id), keys.rq_registry("failed", self._queue)]
        self._refuse([*names, keys.rq_results(job_id), f"{keys.rq_job(job_id)}:refused"], [pack(arguments)])

    def taken(self, most: int = 1000) -> list[bytes]:
        """The ids that were popped and have not begun to run."""
        with store_errors():
            return cast("list[bytes]", self._client.lrange(self._keys.rq_taken(self._queue), 0, most - 1))

    def renew_lease(self, job_id: str, token: str, seconds: int) -> None:
        """Let the lease of a run end so much later, by Redis' clock. RQ writes it by this host's, which may be set."""
        registry = self._keys.rq_registry("wip", self._queue)
        with store_errors():
            now, _ = self._client.time()
            self._client.zadd(registry, {f"{job_id}:{token}": now + seconds}, xx=True)

    def abandoned(self, now: float, most: int = 1000) -> list[bytes]:
        """Runs whose lease has ended, as `id:execution`; `now` in seconds, by Redis' clock."""
        registry = self._keys.rq_registry("wip", self._queue)
        with store_errors():
            return cast("list[bytes]", self._client.zrangebyscore(registry, "-inf", now, start=0, num=most))

    def record(self, job_id: str) -> dict[bytes, bytes]:
        """A job's hash; empty when there is none, or something else in its place."""
        try:
            with store_errors():
                return cast("dict[bytes, bytes]", self._client.hgetall(self._keys.rq_job(job_id)))
        except StoreUnavailableError as error:
            if "WRONGTYPE" in str(error):
                return {}
            raise

    def begin_maintenance(self) -> bool:
        """Whether this worker is to look after the queue now; a dead one's turn ends by itself."""
        with store_errors():
            return bool(self._client.set(self._keys.rq_cleaning(self._queue), 1, nx=True, ex=MAINTENANCE_TURN))

    def end_maintenance(self) -> None:
        """Let the next one have its turn."""
        with store_errors():
            self._client.delete(self._keys.rq_cleaning(self._queue))

    def forget_abandoned(self, member: bytes) -> None:
        """Take a run off the registry of running jobs."""
        with store_errors():
            self._client.zrem(self._keys.rq_registry("wip", self._queue), member)


def _stand_in(entry: bytes) -> str:
    """An id under which what is no id can be listed."""
    return f"refused-{hashlib.sha256(entry).hexdigest()[:16]}"
