"""Maintenance of one queue: bringing back what dead workers held, one job at a time, so that none can block another.

RQ's own maintenance ends at the first record that does not parse and keeps its lock for a quarter of an hour. It fails
what was popped and never started; here that is put back. It moves a job as soon as a lease has ended; here the lease
must have been seen ended for a while, by this worker, since after an outage of Redis all leases look so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from rq.executions import Execution
from rq.job import JobStatus
from rq.queue import Queue
from rq.registry import FailedJobRegistry, FinishedJobRegistry
from rq.worker_registration import clean_worker_registry

from shared.clock import Clock
from shared.errors import StoreError, StoreUnavailableError
from shared.redisio.connection import store_errors
from shared.redisio.intake import Intake
from shared.redisio.runs import Runs
from worker.deadline import skew_problem
from worker.guard.job import GuardedJob
from worker.suspects import Suspects

PATIENCE_SECONDS = 10.0

log = logging.getLogger("rqbeat.worker")


class FailureHandler(Protocol):
    """`Worker.handle_job_failure`: one path for every failure, whoever finds it."""

    def __call__(self, job: GuardedJob, queue: Queue, *, exc_string: str, execution: Execution) -> None: ...


class Recovery:
    """The maintenance of one queue by one worker."""

    def __init__(self, queue: Queue, intake: Intake, runs: Runs, fail: FailureHandler, clock: Clock) -> None:
        self._queue = queue
        self._intake = intake
        self._runs = runs
        self._fail = fail
        self._clock = clock
        self._unstarted = Suspects(PATIENCE_SECONDS)
        self._abandoned = Suspects(PATIENCE_SECONDS)

    def __call__(self) -> None:
        """One pass. Raises StoreError when Redis is gone; nothing that a record holds makes it raise."""
        if not self._intake.begin_maintenance():
            return
        try:
            now = self._now()
            self._try("runs", lambda: self._each(self._abandoned, self._intake.abandoned(now), self._recover))
            self._try("taken ids", lambda: self._each(self._unstarted, self._intake.taken(), self._put_back))
            for registry in (FinishedJobRegistry, FailedJobRegistry):
                self._try("records", partial(registry(queue=self._queue, job_class=GuardedJob).cleanup, now))
            self._try("workers", lambda: clean_worker_registry(self._queue))
        finally:
            self._intake.end_maintenance()

    def _now(self) -> float:
        """Redis' clock. Leases are written by their holders' clocks: one that is off would take live runs for dead."""
        now = self._runs.now()
        if problem := skew_problem(self._clock.now_ms() / 1000, now):
            raise StoreUnavailableError(problem)
        return now

    def _each(self, suspects: Suspects, seen: list[bytes], act: Callable[[bytes], None]) -> None:
        for member in suspects.ripe(seen, self._clock.monotonic()):
            self._try(repr(member[:100]), partial(act, member))

    def _try(self, what: str, act: Callable[[], None]) -> None:
        """Junk in one place keeps nothing else from being looked after; a Redis that is gone is noticed elsewhere."""
        try:
            with store_errors():
                act()
        except (StoreError, ValueError, KeyError, TypeError) as error:
            log.warning("maintenance of %s: %s skipped: %s", self._queue.name, what, error)

    def _recover(self, member: bytes) -> None:
        """Record a failed attempt of a run whose worker died."""
        job_id, _, execution_id = member.decode(errors="replace").partition(":")
        record = self._intake.record(job_id) if execution_id else {}
        if not record:
            self._intake.forget_abandoned(member)
            return
        job = GuardedJob(job_id, connection=self._queue.connection, serializer=self._queue.serializer)
        job.restore(record)
        self._settle(job, Execution(execution_id, job_id, connection=self._queue.connection))

    def _settle(self, job: GuardedJob, execution: Execution) -> None:
        if job.refusal and job.get_status(refresh=False) == JobStatus.STARTED:
            self._intake.refuse(job.id, job.refusal, bad=job.bad_fields)
            self._intake.forget_abandoned(execution.composite_key.encode())
            return
        self._fail(job, self._queue, exc_string="abandoned: its worker died or lost Redis", execution=execution)

    def _put_back(self, entry: bytes) -> None:
        found = self._intake.look_at(entry)
        if isinstance(found, str):
            return
        job = GuardedJob(found.job_id, connection=self._queue.connection, serializer=self._queue.serializer)
        if found.reason is None:
            job.restore(found.fields)
        if reason := found.reason or job.refusal:
            self._intake.refuse(found.job_id, reason, entry=entry, bad=job.bad_fields)
        elif self._intake.put_back(found.job_id, now=self._runs.now()) == "worn":
            self._intake.refuse(found.job_id, "put back too often: whoever takes it dies before it starts")
