"""RQ's `Worker` for a job that a child holds: the ways to put it back, refuse it or end it.

Called in the child for the job at hand, and in the parent for what a child left behind.
"""

from __future__ import annotations

import logging
from typing import Any

from rq.executions import Execution

from shared.redisio.relay import Relay
from worker.guard.ends import WORN
from worker.guard.job import GuardedJob
from worker.guard.loop import GuardedWorker

log = logging.getLogger("rqbeat.worker")


class HeldGuard(GuardedWorker):
    """What becomes of a job in hand."""

    relay: Relay

    def admit(self, entry: bytes) -> GuardedJob | None:
        """The job of a popped id, or None when it was dropped or refused."""
        return self._admit(entry)

    def refuse_begun(self, job: GuardedJob, token: str) -> None:
        """Refuse a job whose run was begun, for what its record holds."""
        reason = job.refusal or ""
        log.warning("job %s is refused: %s", job.id, reason)
        self.intake.refuse(job.id, reason, bad=job.bad_fields)
        self.intake.forget_abandoned(f"{job.id}:{token}".encode())
        if job.schedule is not None:
            self.runs.end(job.id, self.queues[0].name, job.schedule, "failed", reason)

    def give_back(self, job_id: str, token: str) -> None:
        """Return a job whose handler was not called to its queue, without using up an attempt."""
        self.relay.unclaim(job_id, token)
        if self.intake.put_back(job_id) == "worn":
            self.intake.refuse(job_id, WORN)

    def give_back_asked(self, token: str) -> None:
        """The same for the job that was begun under a token, if one was: its reply never came, or came to the dead."""
        if (job_id := self.relay.begun_as(token)) is not None:
            self.give_back(job_id, token)

    def finalize_success(self, job: GuardedJob, execution: Execution, value: Any) -> None:
        """Record a run that returned, in RQ's own way."""
        self._finalize_success(job, self.queues[0], execution, value)

    def finalize_failure(self, job: GuardedJob, execution: Execution, reason: Any) -> None:
        """Record a run that raised, in RQ's own way."""
        self._finalize_failure(job, self.queues[0], execution, reason)
