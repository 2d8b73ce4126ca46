"""RQ's `Worker` as others see it: heartbeats, leases, maintenance, and an orderly goodbye.

RQ's figures let a dead worker's job pass for running for 810 s. Here a lease lasts 30 s and is renewed every 5 s, and
maintenance runs every 10 s, idle or not: a job whose worker died is taken up again within a minute.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from rq.executions import Execution
from rq.job import Job as RqJob
from rq.worker import WorkerStatus
from rq.worker_registration import register

from shared.errors import StoreError, StoreUnavailableError
from shared.redisio.connection import store_errors
from worker.chores import Chores, Rhythm
from worker.guard.recovery import Recovery
from worker.guard.run import RunGuard

BEAT_SECONDS = 5.0
LEASE_SECONDS = 30
MAINTENANCE_SECONDS = 10
REPLY_SECONDS = 5  # the longest command blocks for one

log = logging.getLogger("rqbeat.worker")


class BeatGuard(RunGuard):
    """What is due in between, at every turn of the loop and every look at the running job."""

    chores: Chores
    recovery: Recovery
    beat: Rhythm
    maintenance: Rhythm
    _is_cut_off = False
    _is_leaving = False

    @property
    def connection_timeout(self) -> int:
        """RQ sets this as the time-out of its connection; 415 s by default, so that a dead network hangs it so long."""
        return REPLY_SECONDS

    @property
    def should_run_maintenance_tasks(self) -> bool:
        """RQ asks the wall clock: one that is set back an hour would stop all maintenance for so long."""
        return self.maintenance.is_due()

    def look_around(self, state: str) -> None:
        """Do what is due. Raises StoreError."""
        with store_errors():
            if state == WorkerStatus.IDLE and self.beat.is_due():
                self.heartbeat()
            if self.should_run_maintenance_tasks:
                self.run_maintenance_tasks()
            self.chores.turn(state)

    def run_maintenance_tasks(self) -> None:
        """RQ's would also look after dependencies, rate limits and groups, which are not in use here.

        Called by RQ's loop as well, which would quit for an error: the pop that follows meets the same, and waits.
        A worker that stood still for longer than its lease, as on a machine that slept, was taken off the list of
        workers, maybe by its own maintenance, and RQ puts none back.
        """
        with suppress(StoreUnavailableError):
            self.recovery()
            with store_errors():
                register(self)

    def get_heartbeat_ttl(self, job: RqJob, working_time: float = 0.0) -> int:  # noqa: ARG002 - RQ's signature
        """RQ's lease of a run is 90 s: so long a dead worker's job passes for running."""
        return LEASE_SECONDS

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Also called each second while RQ's workers are suspended, where nothing else of ours is."""
        super().heartbeat(min(timeout or LEASE_SECONDS, LEASE_SECONDS), pipeline)
        self.chores.say(self.get_state())

    def maintain_heartbeats(self, job: RqJob, execution: Execution) -> None:
        """Called by RQ every other second while a job runs. Redis being gone is no reason to give the job up."""
        self.end_overdue()
        try:
            with store_errors():
                if self.beat.is_due():
                    super().maintain_heartbeats(job, execution)
                    self.intake.renew_lease(job.id, execution.id, LEASE_SECONDS)
            self.look_around(WorkerStatus.BUSY)
            self._is_cut_off = False
        except StoreError as error:
            if not self._is_cut_off:
                log.warning("job %s runs on: %s", job.id, error)
            self._is_cut_off = True

    def unsubscribe(self) -> None:
        """RQ wakes its listening thread before it tells it to stop: the thread listens on, and a second is lost."""
        self._is_leaving = True
        listener: Any = self.pubsub_thread
        if listener is not None:
            listener.stop()
        super().unsubscribe()  # type: ignore[no-untyped-call]

    def _pubsub_exception_handler(self, exc: Exception, pubsub: Any, pubsub_thread: Any) -> None:  # noqa: ARG002 - RQ's signature
        """RQ's thread dies of a junk message or a closed socket, and with it the command that stops a run."""
        if self._is_leaving:
            pubsub_thread.stop()
            return
        log.debug("listening for commands: %s", exc)
        self.clock.sleep(1.0)

    def teardown(self) -> None:
        """RQ's raises when Redis is gone, and leaves its listening thread behind."""
        for step in (self.unsubscribe, self.register_death):
            try:
                with store_errors():
                    step()
            except StoreError as error:
                log.debug("no orderly goodbye: %s", error)
        self.chores.leave()
