"""RQ's `Worker` at the end of a run: one honest outcome, decided once, by whoever saw the end.

The horse records the end of a run that returned or raised. The parent records it when the horse was killed, and
maintenance when both were. RQ writes status, result and registries in one transaction; what is ours follows it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import rq
from rq.exceptions import InvalidJobOperation
from rq.executions import Execution
from rq.job import Job as RqJob
from rq.job import JobStatus
from rq.queue import Queue
from rq.utils import now as rq_now
from rq.worker import Worker

from shared.clock import Clock
from shared.errors import ExpiredError, RefusedPayloadError, StoreError, StoreUnavailableError, UnknownJobError
from shared.redisio.connection import store_errors
from shared.redisio.intake import Intake
from shared.redisio.records import last_line
from shared.redisio.runs import Outcome, Runs
from worker.guard.job import GuardedJob

T = TypeVar("T")

PATIENCE_SECONDS = 120
MAX_TRACEBACK = 64_000
MAX_LOGGED = 8_000
WORN = "put back too often: whoever takes it dies before it starts"

log = logging.getLogger("rqbeat.worker")

_ONE_LINE = (RefusedPayloadError, UnknownJobError, ExpiredError)
"""Errors of ours that say all in one line: no traceback is kept of them."""

_NOT_THE_JOBS = (str(Path(rq.__file__).parent), str(Path(__file__).parent.parent))


class EndGuard(Worker):
    """What becomes of a job after its run."""

    log_result_lifespan = False
    intake: Intake
    runs: Runs
    clock: Clock

    def handle_job_success(self, job: RqJob, *args: Any, **kwargs: Any) -> None:
        super().handle_job_success(job, *args, **kwargs)
        log.info("job %s (%s) finished", job.description, job.id)
        self._record_end(job, "finished")

    def _finalize_success(self, job: RqJob, queue: Queue, execution: Execution, return_value: Any) -> None:
        """RQ makes a failure of a run that returned while Redis was away, and runs it again."""
        self.patiently(partial(super()._finalize_success, job, queue, execution, return_value))

    def _finalize_failure(
        self,
        job: RqJob,
        queue: Queue,
        execution: Execution,
        exc_info: tuple[type[BaseException] | None, BaseException | None, TracebackType | None],
    ) -> None:
        """RQ forgets the exception before it decides on a retry; here the rule is asked about it."""
        kind, error, trace = exc_info
        if isinstance(job, GuardedJob):
            job.error = error
        reason = (kind, error, _own_part(trace))
        self.patiently(partial(super()._finalize_failure, job, queue, execution, reason))

    def handle_work_horse_killed(self, job: RqJob, retpid: Any, ret_val: Any, rusage: Any) -> None:  # noqa: ARG002 - RQ's signature
        """RQ keeps the bare wait status as the reason; here it is put into words."""
        if isinstance(job, GuardedJob):
            job.note = _death_note(job, ret_val)

    def handle_exception(self, job: RqJob, *exc_info: Any) -> None:
        """RQ hands the job's arguments to the log; `handle_job_failure` says what there is to say."""

    def handle_job_failure(
        self,
        job: RqJob,
        queue: Queue,
        started_job_registry: Any = None,
        exc_string: str = "",
        execution: Execution | None = None,
    ) -> None:
        """Record a failed attempt, and what follows from it.

        RQ calls this for any horse that ended badly, and so fails jobs that never began and retries twice what the
        horse had already sent to its retry: only a run that is not over yet can fail.
        """
        if not self.is_horse and not self._is_open(job, execution):
            self.settle_unstarted(job, execution)
            return
        text = _reason(job, exc_string)
        if not self.is_horse or self._is_running(job, execution):
            self._write_failure(job, queue, started_job_registry, text, execution)
        else:  # an earlier try has written it, and its reply was lost
            with suppress(InvalidJobOperation), store_errors():
                job.get_status()
        outcome = _outcome(job)
        told = last_line(text) if outcome == "retrying" else text.strip()[-MAX_LOGGED:]
        log.warning("job %s (%s) %s: %s", job.description, job.id, outcome, told)
        self._record_end(job, outcome, last_line(text))

    def _write_failure(self, job: RqJob, queue: Queue, registry: Any, text: str, execution: Execution | None) -> None:
        """RQ logs what it could not write, and goes on; here that is an error, and what was counted is counted back."""
        retries_left = job.retries_left
        try:
            super().handle_job_failure(job, queue, registry, text, execution)
            if self._is_running(job, execution):
                raise StoreUnavailableError(f"the failure of job {job.id} could not be recorded")
        except StoreError:
            job.retries_left = retries_left
            raise

    def _is_open(self, job: RqJob, execution: Execution | None) -> bool:
        """Whether a run that did not end by itself still has to be given an end."""
        was_stopped = self._stopped_job_id == job.id and job.get_status(refresh=False) == JobStatus.QUEUED
        return was_stopped or self._is_running(job, execution)

    def _is_running(self, job: RqJob, execution: Execution | None) -> bool:
        """Whether the job is in this very run: it may have been put back, and be in another by now."""
        return execution is not None and self.intake.running_as(job.id) == execution.id

    def patiently(self, act: Callable[[], T]) -> T:
        """Do something, again and again while Redis is away. For steps that have the same effect when repeated."""
        for tries_left in reversed(range(PATIENCE_SECONDS)):
            try:
                with store_errors():
                    return act()
            except StoreUnavailableError as error:
                if not tries_left or "WRONGTYPE" in str(error):  # which no waiting mends
                    raise
                if tries_left == PATIENCE_SECONDS - 1:
                    log.warning("a run waits for Redis: %s", error)
            self.clock.sleep(1.0)
        raise AssertionError("the last try returns or raises")

    def settle_unstarted(self, job: RqJob, execution: Execution | None) -> None:
        """Put back a job that was taken and never began; leave alone one whose end is written already."""
        self.forget_execution(job, execution)
        if self.intake.put_back(job.id) == "worn":
            self.intake.refuse(job.id, WORN)

    def forget_execution(self, job: RqJob, execution: Execution | None) -> None:
        """Take a run that never was off RQ's registries."""
        with store_errors(), self.connection.pipeline() as pipeline:
            self.cleanup_execution(job, pipeline=pipeline, execution=execution)
            pipeline.execute()

    def _record_end(self, job: RqJob, outcome: Outcome, error: str = "") -> None:
        """Never raises: the job's own record stands, and must not be turned into a failure for a counter."""
        try:
            schedule = job.schedule if isinstance(job, GuardedJob) else None
            self.runs.end(job.id, job.origin, schedule, outcome, error)
        except StoreError as problem:
            log.warning("job %s: its end is not counted: %s", job.id, problem)


def _own_part(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from where the user's code begins; whole, when it never does."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename.startswith(_NOT_THE_JOBS):
        part = part.tb_next
    return part or trace


def _reason(job: RqJob, exc_string: str) -> str:
    """What is kept of an error: one line where that says all, else the traceback, of a bounded size."""
    error = job.error if isinstance(job, GuardedJob) else None
    note = job.note if isinstance(job, GuardedJob) else None
    text = note or (str(error) if isinstance(error, _ONE_LINE) else exc_string)
    return text.encode(errors="replace").decode()[-MAX_TRACEBACK:]


def _death_note(job: GuardedJob, wait_status: int | None) -> str:
    if wait_status is None or not os.WIFSIGNALED(wait_status):
        return f"its process ended by itself (wait status {wait_status}) before the run was over"
    lasted = (rq_now() - job.started_at).total_seconds() if job.started_at else 0.0
    if job.timeout and lasted > job.timeout:
        return f"killed {lasted - job.timeout:.0f} s after its time-out of {job.timeout:.0f} s, which it swallowed"
    return f"killed by signal {os.WTERMSIG(wait_status)}: out of memory, or by hand"


def _outcome(job: RqJob) -> Outcome:
    status = job.get_status(refresh=False)
    if status == JobStatus.STOPPED:
        return "stopped"
    if status != JobStatus.FAILED:  # it waits for its next attempt, or is in it already
        return "retrying"
    return "expired" if isinstance(job, GuardedJob) and isinstance(job.error, ExpiredError) else "failed"
