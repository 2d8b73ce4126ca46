"""What a run reads and writes in Redis: its end, once-marks, checkpoints, rate limits.

Each is one round trip. All of them are about our own keys, and about fields of a job's hash that RQ does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar, cast

import redis

from shared.codec import encode
from shared.errors import StoreUnavailableError
from shared.keys import Keys
from shared.redisio.connection import store_errors
from shared.redisio.scripts import Script, pack

T = TypeVar("T")
Outcome = Literal["finished", "failed", "retrying", "stopped", "expired"]
Entered = Literal["first", "done", "doubt"]


class Runs:
    """The store of runs. Safe to share between threads; each call blocks for one round trip and raises StoreError."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._end = Script(client, "run_end")
        self._enter = Script(client, "run_once_enter")
        self._leave = Script(client, "run_once_leave")
        self._rate = Script(client, "run_rate")

    def now(self) -> float:
        """Redis' clock, in epoch seconds."""
        with store_errors():
            seconds, microseconds = self._client.time()
        return seconds + microseconds / 1_000_000

    def end(self, job_id: str, queue: str, schedule: str | None, outcome: Outcome, error: str = "") -> None:
        """Write down how a run ended: the schedule's counters, the error for the next attempt, what is over."""
        keys, name = self._keys, schedule or ""
        names = [keys.rq_job(job_id), keys.rq_registry("failed", queue), f"{keys.expired_prefix}{queue}"]
        own = (keys.schedule_prefix, keys.stats_prefix, keys.outstanding_prefix, keys.waiting_prefix)
        names += [f"{prefix}{name}" for prefix in own]
        arguments = {"id": job_id, "outcome": outcome, "error": error[:500], "scheduled": schedule is not None}
        self._end([*names, keys.wake], [pack(arguments)])

    def enter_once(self, job_id: str, mark: str, claim: str, memory_seconds: int, on_doubt: str) -> Entered:
        """Claim a once-mark. Tried a second time when Redis does not answer the first."""
        arguments: list[str | int] = [claim, memory_seconds * 1000, on_doubt]
        reply = _twice(lambda: self._enter([self._keys.once(job_id, mark)], arguments))
        return cast("Entered", reply.decode())

    def leave_once(self, job_id: str, mark: str, claim: str, memory_seconds: int, *, done: bool) -> None:
        """Mark it done, or release the claim. Tried a second time when Redis does not answer the first."""
        arguments: list[str | int] = [claim, memory_seconds * 1000, "done" if done else "released"]
        _twice(lambda: self._leave([self._keys.once(job_id, mark)], arguments))

    def save_checkpoint(self, job_id: str, progress: Mapping[str, Any], memory_seconds: int) -> None:
        """Replace the job's checkpoint. Tried a second time, as above. Raises PayloadError for what can't be kept."""
        data = encode(dict(progress), "checkpoint")
        _twice(lambda: self._set(self._keys.checkpoint(job_id), data, memory_seconds))

    def rate_wait(self, bucket: str, per_second: float, most: float) -> float:
        """Take a token; the seconds to wait before it may be used."""
        wait = self._rate([self._keys.rate(bucket)], [str(per_second), str(most)])
        return cast("int", wait) / 1_000_000

    def _set(self, key: str, data: bytes, seconds: int) -> None:
        with store_errors():
            self._client.set(key, data, ex=seconds)


def _twice(act: Callable[[], T]) -> T:
    """For steps that sent twice have the effect of once: the first reply may have been lost."""
    try:
        return act()
    except StoreUnavailableError:
        return act()
