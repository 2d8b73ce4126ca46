"""RQ's `Worker` between jobs: how it waits for one, what it lets in, how it stops and ends.

A signal sets a flag and turns are a second long, so a stop takes about that. Redis being gone ends the loop in an
orderly way, with `broken` set, and the runner begins another when Redis is back: under a new name, since RQ's list of
workers may have been lost with the rest.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType
from typing import Any

from rq.exceptions import StopRequested
from rq.job import Job as RqJob
from rq.queue import Queue
from rq.worker import WorkerStatus

from shared.clock import Clock
from shared.errors import RqbeatError
from shared.redisio.connection import Client, store_errors
from shared.redisio.intake import Intake, Taken
from shared.redisio.runs import Runs
from worker.chores import Chores, Rhythm
from worker.guard.beats import BEAT_SECONDS, LEASE_SECONDS, MAINTENANCE_SECONDS, BeatGuard
from worker.guard.job import GuardedJob, PayloadSerializer
from worker.guard.recovery import Recovery
from worker.guard.run import guarded_queue

TURN_SECONDS = 1
STOP_SECONDS = 2
WATCH_SECONDS = 2  # how often the parent looks up while a job runs

log = logging.getLogger("rqbeat.worker")


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(0)


class GuardedWorker(BeatGuard):
    """One worker of one queue. After `work` has returned, `broken`, `drained`, `done` and `is_stopping` tell why."""

    broken: RqbeatError | None = None
    drained: bool = False
    done: int = 0

    def __init__(
        self, queue: str, *, connection: Client, intake: Intake, runs: Runs, chores: Chores, clock: Clock
    ) -> None:
        super().__init__(
            [guarded_queue(queue, connection)],
            name=f"{socket.gethostname()}-{uuid.uuid4().hex[:12]}",  # never one that a dead worker may still hold
            connection=connection,
            job_class=GuardedJob,
            serializer=PayloadSerializer,
            worker_ttl=LEASE_SECONDS,
            job_monitoring_interval=WATCH_SECONDS,
            maintenance_interval=MAINTENANCE_SECONDS,
            log_job_description=False,
        )
        self.intake, self.runs, self.chores, self.clock = intake, runs, chores, clock
        self.beat, self.maintenance = Rhythm(clock, BEAT_SECONDS), Rhythm(clock, MAINTENANCE_SECONDS)
        self.recovery = Recovery(self.queues[0], intake, runs, self.handle_job_failure, clock)
        self._stop_asked_at = 0.0

    @property
    def is_stopping(self) -> bool:
        """Whether a signal asked for a warm stop."""
        return self._stop_requested

    def bootstrap(self, *args: Any, **kwargs: Any) -> None:
        """RQ listens to signals only after it has registered: one in between left a dead worker on the list."""
        self._install_signal_handlers()  # type: ignore[no-untyped-call]
        super().bootstrap(*args, **kwargs)

    def dequeue_job_and_maintain_ttl(
        self,
        timeout: int | None,
        max_idle_time: int | None = None,  # noqa: ARG002 - RQ's signature
    ) -> tuple[RqJob, Queue] | None:
        """The next job that may run. With no `timeout` (burst) None when the queue is empty, else it waits for one."""
        with self._ending_in_order():
            self.set_state(WorkerStatus.IDLE)
            while not self._stop_requested:
                self.look_around(WorkerStatus.IDLE)
                entry = self.intake.pop(None if timeout is None else TURN_SECONDS)
                if entry is None and timeout is None:
                    self.drained = True
                    return None
                job = self._admit(entry) if entry is not None else None
                if job is not None:
                    return job, self.queues[0]
        raise StopRequested

    def execute_job(self, job: RqJob, queue: Queue) -> None:
        signal.alarm(0)  # from here on there is something at stake: see `request_stop`
        with self._ending_in_order():
            super().execute_job(job, queue)
        self.done += 1

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """With a pipeline nothing is sent yet, and an error is the caller's."""
        with nullcontext() if pipeline is not None else self._ending_in_order():
            super().heartbeat(timeout, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        with self._ending_in_order():
            super().check_for_suspension(burst)

    def request_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler
        """RQ's handler talks to Redis and raises out of whatever is going on, a pop included; a flag loses nothing.

        An idle worker that waits for a Redis that hangs leaves without a goodbye: its lease ends by itself.
        """
        self._stop_requested = True
        if self.get_state() != WorkerStatus.BUSY:
            signal.signal(signal.SIGALRM, _leave)
            signal.alarm(STOP_SECONDS)
        self._stop_asked_at = self.clock.monotonic()
        for sig in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sig, self.request_force_stop)

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler
        """A cold stop, with an exit code that says so; RQ's is 0. One Ctrl-C may arrive twice, by way of a parent."""
        if self.clock.monotonic() - self._stop_asked_at >= 1:
            raise SystemExit(1)

    def _admit(self, entry: bytes) -> GuardedJob | None:
        """The job of a popped id, or None when it was dropped or refused."""
        found = self.intake.look_at(entry)
        if isinstance(found, str):
            log.warning("%r is dropped: %s", entry[:100], found)
            return None
        job = GuardedJob(found.job_id, connection=self.connection, serializer=self.serializer)
        if found.reason is None:
            job.restore(found.fields)
        if reason := found.reason or job.refusal:
            self._refuse(found, job, reason)
            return None
        job.origin = self.queues[0].name
        return job

    def _refuse(self, found: Taken, job: GuardedJob, reason: str) -> None:
        log.warning("job %s is refused: %s", found.job_id, reason)
        self.intake.refuse(found.job_id, reason, entry=found.entry, bad=job.bad_fields)
        if job.schedule is not None:
            self.runs.end(found.job_id, self.queues[0].name, job.schedule, "failed", reason)

    @contextmanager
    def _ending_in_order(self) -> Iterator[None]:
        """What the surroundings do to a worker ends its loop without a traceback, and the runner knows why."""
        try:
            with store_errors():
                yield
        except RqbeatError as error:
            self.broken = error
            raise StopRequested from error
