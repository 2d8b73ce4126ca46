"""RQ's `Worker` around one job: fork, claim, run, and one honest end, whoever of parent and horse is killed when.

killed                                      what becomes of the job
before the claim                            still queued and on the list of taken ids: put back, no attempt used
the horse, after it                         the parent sees it and records a failed attempt at once
the parent, after it                        the horse dies with it; its lease ends; `recovery` records a failed attempt
after the result was saved                  finished: RQ writes result, status and registries in one transaction
"""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rq.executions import Execution
from rq.job import Job as RqJob
from rq.job import JobStatus
from rq.queue import Queue
from rq.worker import Worker

from shared.errors import ExpiredError, RefusedPayloadError, RqbeatError, StoreError, UnknownJobError
from shared.process import die_with_parent
from shared.redisio.connection import store_errors
from shared.redisio.intake import Intake
from shared.redisio.runs import Outcome, Runs
from worker.guard.job import GuardedJob, PayloadSerializer
from worker.guard.timeout import RunTimeout
from worker.site import Site, taking_place_at

if TYPE_CHECKING:
    from resource import struct_rusage

MAX_TRACEBACK = 64_000
MAX_LOGGED = 8_000

log = logging.getLogger("rqbeat.worker")

_OneLine = (RefusedPayloadError, UnknownJobError, ExpiredError)
"""Errors of ours that say all in one line: no traceback is kept of them."""


class RunGuard(Worker):
    """One job from its fork to its end."""

    death_penalty_class = RunTimeout
    log_result_lifespan = False
    intake: Intake
    runs: Runs

    # In the parent.

    def execute_job(self, job: RqJob, queue: Queue) -> None:
        """Run a job in a child. A cold stop counts as a failed attempt."""
        try:
            super().execute_job(job, queue)
        except SystemExit:
            self._cut_off(job, queue)
            raise

    def fork_work_horse(self, job: RqJob, queue: Queue) -> None:
        """A fork that the system refuses ends RQ's worker, with exit 0 and the job half taken; here it is put back."""
        try:
            super().fork_work_horse(job, queue)
        except OSError as error:
            self._settle_unstarted(job, self.execution)
            raise RqbeatError(f"the system refuses a new process: {error}") from error

    def wait_for_horse(self) -> tuple[int | None, int | None, struct_rusage | None]:
        """RQ's wait, and an end to whatever the run left behind.

        Programs that a job started outlive its time-out under RQ. Here they end with the run, unless they made a
        session of their own. The group is killed before the horse is reaped, while its number can't be anybody else's.
        """
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.horse_pid, os.WEXITED | os.WNOWAIT)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.horse_pid, signal.SIGKILL)
        return super().wait_for_horse()

    # In the horse.

    def main_work_horse(self, job: RqJob, queue: Queue) -> None:
        """RQ's horse outlives its parent and then runs beside the job's next attempt; this one dies with it."""
        die_with_parent(self.pid or os.getppid())
        super().main_work_horse(job, queue)

    def perform_job(self, job: RqJob, queue: Queue, execution: Execution) -> bool:
        """RQ starts whatever it popped; here the job must still be queued, which one worker alone can find true."""
        if not isinstance(job, GuardedJob) or not self.intake.claim(job.id, self.name):
            log.warning("job %s: not started, it does not wait any more", job.id)
            self._forget_execution(job, execution)
            return False
        with taking_place_at(Site(job_id=job.id, runs=self.runs, memory_seconds=job.memory_seconds)):
            return super().perform_job(job, queue, execution)

    def prepare_job_execution(self, job: RqJob, remove_from_intermediate_queue: bool = False) -> None:  # noqa: ARG002 - RQ's signature
        """The claim has written all of this; RQ's objects are told, by way of a pipeline that is never sent."""
        job.prepare_for_execution(self.name, self.connection.pipeline())

    def handle_job_success(self, job: RqJob, *args: Any, **kwargs: Any) -> None:
        super().handle_job_success(job, *args, **kwargs)
        log.info("job %s (%s) finished", job.description, job.id)
        self._record_end(job, "finished")

    def _finalize_failure(
        self,
        job: RqJob,
        queue: Queue,
        execution: Execution,
        exc_info: tuple[type[BaseException] | None, BaseException | None, TracebackType | None],
    ) -> None:
        """RQ forgets the exception before it decides on a retry."""
        if isinstance(job, GuardedJob):
            job.error = exc_info[1]
        super()._finalize_failure(job, queue, execution, exc_info)

    def handle_exception(self, job: RqJob, *exc_info: Any) -> None:
        """RQ hands the arguments of the job to the log; here its name and error must do."""

    # In both.

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
        if not self.is_horse and job.get_status(refresh=False) != JobStatus.STARTED:
            self._settle_unstarted(job, execution)
            return
        text = _reason(job, exc_string)
        super().handle_job_failure(job, queue, started_job_registry, text, execution)
        outcome = _outcome(job)
        log.warning("job %s (%s) %s: %s", job.description, job.id, outcome, text.strip()[-MAX_LOGGED:])
        self._record_end(job, outcome, _last_line(text))

    def _record_end(self, job: RqJob, outcome: Outcome, error: str = "") -> None:
        """Never raises: the job's own record stands, and must not be turned into a failure for a counter."""
        try:
            schedule = job.schedule if isinstance(job, GuardedJob) else None
            self.runs.end(job.id, job.origin, schedule, outcome, error)
        except StoreError as problem:
            log.warning("job %s: its end is not counted: %s", job.id, problem)

    def _settle_unstarted(self, job: RqJob, execution: Execution | None) -> None:
        """Put back a job that was taken and never began; leave alone one whose end is written already."""
        self._forget_execution(job, execution)
        if self.intake.put_back(job.id) == "worn":
            self.intake.refuse(job.id, "put back too often: whoever takes it dies before it starts")

    def _forget_execution(self, job: RqJob, execution: Execution | None) -> None:
        with store_errors(), self.connection.pipeline() as pipeline:
            self.cleanup_execution(job, pipeline=pipeline, execution=execution)
            pipeline.execute()

    def _cut_off(self, job: RqJob, queue: Queue) -> None:
        execution = self.execution
        if self.horse_pid:
            self.kill_horse()
            self.wait_for_horse()
        with suppress(StoreError), store_errors():
            job.get_status()
            self.handle_job_failure(job, queue, exc_string="cut off by a cold stop of its worker", execution=execution)


def guarded_queue(name: str, connection: Any) -> Queue:
    """RQ's queue with our serializer and job class, so that whatever RQ fetches through it was judged."""
    return Queue(name, connection=connection, job_class=GuardedJob, serializer=PayloadSerializer)


def _reason(job: RqJob, exc_string: str) -> str:
    """What is kept of an error: one line where that says all, else the traceback, of a bounded size."""
    error = job.error if isinstance(job, GuardedJob) else None
    text = str(error) if isinstance(error, _OneLine) else exc_string
    return text.encode(errors="replace").decode()[-MAX_TRACEBACK:]


def _outcome(job: RqJob) -> Outcome:
    status = job.get_status(refresh=False)
    if status in {JobStatus.QUEUED, JobStatus.SCHEDULED}:
        return "retrying"
    if status == JobStatus.STOPPED:
        return "stopped"
    return "expired" if isinstance(job, GuardedJob) and isinstance(job.error, ExpiredError) else "failed"


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or [""])[-1][:500]
