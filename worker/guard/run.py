"""RQ's `Worker` around one run: fork, claim, run, and nothing of it left behind.

killed                        what becomes of the job
before the claim              still queued and on the list of taken ids: put back, no attempt used
the horse, after it           the parent sees it and records a failed attempt at once
the parent, after it          the horse dies with it; its lease ends; maintenance records a failed attempt
after the result was saved    finished
"""

from __future__ import annotations

import logging
import os
import signal
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rq.executions import Execution
from rq.job import Job as RqJob
from rq.queue import Queue
from rq.utils import now as rq_now

from shared.errors import RqbeatError, StoreError
from shared.orphans import adopt_orphans, children, end_children
from shared.process import die_with_parent
from shared.redisio.connection import store_errors
from worker.guard.ends import EndGuard
from worker.guard.job import GuardedJob, PayloadSerializer
from worker.guard.timeout import GRACE_SECONDS, RunTimeout
from worker.site import Site, taking_place_at

if TYPE_CHECKING:
    from resource import struct_rusage

OVERDUE_SECONDS = GRACE_SECONDS + 2

log = logging.getLogger("rqbeat.worker")


class RunGuard(EndGuard):
    """One job from its fork to its end."""

    death_penalty_class = RunTimeout
    _forked_at = 0.0
    _not_ours: frozenset[int] = frozenset()
    _limit: tuple[RqJob, float | None] | None = None

    # In the parent.

    def bootstrap(self, *args: Any, **kwargs: Any) -> None:
        """What is left of a run becomes a child of this process; what the app itself started is not its business."""
        adopt_orphans()
        self._not_ours = children()
        super().bootstrap(*args, **kwargs)

    def execute_job(self, job: RqJob, queue: Queue) -> None:
        """Run a job in a child. A cold stop counts as a failed attempt; no child is left behind, whatever happens."""
        try:
            super().execute_job(job, queue)
        except BaseException as error:
            if self.horse_pid:
                cold = isinstance(error, SystemExit)
                self._cut_off(job, queue, "a cold stop of its worker" if cold else f"an error of its worker: {error}")
            raise

    def fork_work_horse(self, job: RqJob, queue: Queue) -> None:
        """A fork that the system refuses ends RQ's worker, with exit 0 and the job half taken; here it is put back."""
        self._forked_at = self.clock.monotonic()
        try:
            super().fork_work_horse(job, queue)
        except OSError as error:
            self.settle_unstarted(job, self.execution)
            raise RqbeatError(f"the system refuses a new process: {error}") from error
        with suppress(OSError):  # the child does it too; until one of them has, a kill of its group would be ours
            os.setpgid(self.horse_pid, self.horse_pid)

    def monitor_work_horse(self, job: RqJob, queue: Queue, execution: Execution) -> None:
        """RQ takes an exit code of 0 for a run that has written its end; a job can make one by `os._exit(0)`.

        While Redis is away it is left to maintenance. RQ's own limit is told by the wall clock, and one that is set an
        hour ahead would end a healthy run: RQ sees none until the run is over.
        """
        self._limit = job, job.timeout
        job.timeout = -1
        super().monitor_work_horse(job, queue, execution)
        with suppress(StoreError), store_errors():
            if self._is_running(job, execution):
                job.get_status()
                job.ended_at = rq_now()
                self.handle_work_horse_killed(job, None, os.EX_OK, None)
                self.handle_job_failure(job, queue, execution=execution)

    def wait_for_horse(self) -> tuple[int | None, int | None, struct_rusage | None]:
        """RQ's wait, and an end to whatever the run left behind.

        Programs that a job started outlive its time-out under RQ. Here they end with the run: the horse's group, which
        is killed before the horse is reaped, while its number can't be anybody else's, and those that left the group,
        which are children of this process by then.
        """
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.horse_pid, os.WEXITED | os.WNOWAIT)
        signal.alarm(0)  # RQ looks up by an alarm that raises: not between the reaping and the return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.horse_pid, signal.SIGKILL)
        end = super().wait_for_horse()
        if self._limit is not None:
            job, limit = self._limit
            job.timeout, self._limit = limit, None
        end_children(but=self._not_ours)
        return end

    def end_overdue(self) -> None:
        """Kill a run that its own alarm can't reach, since it is deep in C or has switched alarms off."""
        limit = self._limit[1] if self._limit else None
        if limit and self.clock.monotonic() - self._forked_at > limit + OVERDUE_SECONDS:
            self.kill_horse()

    # In the horse.

    def main_work_horse(self, job: RqJob, queue: Queue) -> None:
        """RQ's horse outlives its parent and then runs beside the job's next attempt; this one dies with it."""
        die_with_parent(self.pid or os.getppid())
        super().main_work_horse(job, queue)

    def perform_job(self, job: RqJob, queue: Queue, execution: Execution) -> bool:
        """RQ starts whatever it popped; here the job must still be queued, which one worker alone can find true."""
        begun = self.patiently(partial(self.intake.claim, job.id, self.name, execution.id))
        if begun is None or not isinstance(job, GuardedJob):
            log.warning("job %s: not started, it does not wait any more", job.id)
            self.forget_execution(job, execution)
            return False
        with taking_place_at(Site(job_id=job.id, begun=begun, runs=self.runs, memory_seconds=job.memory_seconds)):
            return super().perform_job(job, queue, execution)

    def prepare_job_execution(self, job: RqJob, remove_from_intermediate_queue: bool = False) -> None:  # noqa: ARG002 - RQ's signature
        """The claim has written all of this; RQ's objects are told, by way of a pipeline that is never sent."""
        job.prepare_for_execution(self.name, self.connection.pipeline())

    def _cut_off(self, job: RqJob, queue: Queue, by: str) -> None:
        execution = self.execution
        self.kill_horse()
        self.wait_for_horse()
        with suppress(StoreError), store_errors():
            job.get_status()
            self.handle_job_failure(job, queue, exc_string=f"cut off by {by}", execution=execution)


def guarded_queue(name: str, connection: Any) -> Queue:
    """RQ's queue with our serializer and job class, so that whatever RQ fetches through it was judged."""
    return Queue(name, connection=connection, job_class=GuardedJob, serializer=PayloadSerializer)
