"""RQ's `Job` behind a guard: which records are read, which callable is run, when and how late a retry comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rq.job import Job
from rq.queue import Queue

from shared.codec import decode, encode
from shared.errors import RefusedPayloadError
from shared.instants import utc_datetime
from shared.options import DAY
from shared.payload import Call, FireContext
from worker.execute import run
from worker.record import judge
from worker.retry import attempt_of, delay_seconds, longest_span, may_retry

DEFAULT_TIMEOUT = 180


class PayloadSerializer:
    """Our codec as RQ wants it; RQ's default would unpickle data, meta and results."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        return encode(value)

    @staticmethod
    def loads(data: bytes) -> Any:
        return decode(data)


class GuardedJob(Job):
    """A job whose record was judged before RQ read it.

    `refusal` says why it must not run, None when it may; `call` and `fire` are its payload, None when that is what was
    refused; `error` is what ended its run, `note` what is to be kept instead of it.
    """

    refusal: str | None = None
    bad_fields: tuple[str, ...] = ()
    call: Call | None = None
    fire: FireContext | None = None
    error: BaseException | None = None
    note: str | None = None

    def restore(self, raw_data: Mapping[bytes, bytes]) -> None:
        """Never raises: RQ's own raises on the first junk field, which ends the worker or its maintenance."""
        record = judge(raw_data)
        super().restore({**record.fields, b"data": b""})
        self.data = record.data  # RQ would inflate it once more, without bound
        self.refusal, self.bad_fields = record.refusal, record.bad
        self.call, self.fire = record.call, record.fire

    @property
    def func(self) -> Callable[[bytes, bytes], Any]:
        """The one callable. RQ would import whatever name the payload holds, or look it up on its `instance`."""
        if self.refusal is not None:
            raise RefusedPayloadError(self.refusal)
        return run

    @property
    def schedule(self) -> str | None:
        """The id of the schedule that fired this job."""
        return self.fire.schedule if self.fire else None

    @property
    def memory_seconds(self) -> int:
        """How long marks and checkpoints of this job must live from a start on."""
        rule, timeout = self.call.retry if self.call else None, int(self.timeout or DEFAULT_TIMEOUT)
        kept = self.failure_ttl if self.failure_ttl is not None and self.failure_ttl >= 0 else 365 * DAY
        return longest_span(rule, timeout) + max(kept, 60)

    @property
    def should_retry(self) -> bool:
        """RQ asks for retries left alone; the rule also has a say about the error."""
        return bool(super().should_retry and self.call and may_retry(self.call.retry, self.error))

    def get_retry_interval(self) -> int:
        """RQ takes intervals fixed when the job was sent; the delay is computed now, from the rule and the error."""
        if self.call is None or self.call.retry is None:
            return 0
        attempt = attempt_of(self.call.retry, self.retries_left or 0)
        return delay_seconds(self.call.retry, self.id, attempt, self.error)

    def retry(self, queue: Queue, pipeline: Any) -> None:
        """Enqueue or schedule the next attempt, all of it within the caller's transaction.

        RQ sets the status "scheduled" ahead of it: a kill in between leaves a job in no registry, lost.
        """
        delay = self.get_retry_interval()
        self.retries_left = (self.retries_left or 1) - 1
        if not delay:
            queue._enqueue_job(self, pipeline=pipeline, at_front=self.enqueue_at_front_on_retry)  # noqa: SLF001 - as RQ's own retry does
            return
        seconds, microseconds = self.connection.time()
        due = seconds + (1 if microseconds else 0) + delay  # RQ cuts due times to whole seconds: never early
        queue.schedule_job(self, utc_datetime(due * 1000), pipeline=pipeline)
