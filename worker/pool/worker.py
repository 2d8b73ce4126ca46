"""RQ's worker as the parent of a pool's child: it never runs a job, and gives an end to what a child left behind.

It is the worker that RQ knows. The child takes jobs and renews nothing; the parent looks at the board, renews the lease
of a run that lasts, writes RQ's records of it, stops it when told to, and kills one that is past its time-out and did
not stop by itself.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rq.executions import Execution
from rq.job import Job as RqJob
from rq.queue import Queue
from rq.suspension import is_suspended
from rq.utils import now as rq_now
from rq.worker import BaseWorker, WorkerStatus

from shared.errors import RqbeatError, StoreError, StoreUnavailableError
from shared.instants import utc_datetime
from shared.orphans import adopt_orphans
from shared.process import die_with_parent
from shared.redisio.connection import store_errors
from shared.redisio.relay import Relay
from worker.chores import Rhythm
from worker.guard.beats import BEAT_SECONDS, LEASE_SECONDS
from worker.guard.job import GuardedJob, PayloadSerializer
from worker.guard.loop import GuardedWorker
from worker.guard.timeout import GRACE_SECONDS
from worker.pool.board import Board, Note, Phase, Score
from worker.pool.child import Child, Leave, Limits
from worker.pool.stops import StopGuard

LOOK_SECONDS = 0.05
TURN_SECONDS = 0.5
WRITE_SECONDS = 0.5
"""How long a run must have lasted for its parent to write RQ's records of it; more than the child's WRITTEN_SECONDS."""
OVERDUE_SECONDS = GRACE_SECONDS + 2
"""How long after its time-out a run is killed that holds the interpreter, so that its own alarm can't."""
FIRST_PAUSE = 0.5
SILENT_SECONDS = 15
"""An idle child is heard of every second, or leaves after a call of Redis that was not answered for five."""
GROWTH_BYTES = 256 * 1024 * 1024

log = logging.getLogger("rqbeat.worker")


class PoolWorker(StopGuard):
    """One worker of one queue, with one child at a time."""

    _max_jobs: int | None = None

    def __init__(self, queue: str, *, relay: Relay, jobs_per_child: int | None = None, **parts: Any) -> None:
        super().__init__(queue, **parts)
        self.relay = relay
        self._board = Board()
        self._jobs_per_child = jobs_per_child
        self._counted = Score()
        self._turn, self._telling = Rhythm(self.clock, TURN_SECONDS), Rhythm(self.clock, BEAT_SECONDS)
        self._written = ""

    def work(self, burst: bool = False, *args: Any, max_jobs: int | None = None, **kwargs: Any) -> bool:
        """RQ counts the jobs that it hands out; here the board does."""
        self._max_jobs = max_jobs
        return super().work(burst, *args, **kwargs)

    def dequeue_job_and_maintain_ttl(
        self,
        timeout: int | None,
        max_idle_time: int | None = None,  # noqa: ARG002 - RQ's signature
    ) -> tuple[RqJob, Queue] | None:
        """Have children work until the end; no job ever comes out of here."""
        with self._ending_in_order(), self._leaving_nothing():
            self.set_state(WorkerStatus.IDLE)
            while not self._is_over():
                self.check_for_suspension(burst=timeout is None)
                self._have_a_child(burst=timeout is None)
        return None

    def _is_over(self) -> bool:
        return self._stop_requested or self.drained or self._jobs_left() == 0

    def _jobs_left(self) -> int | None:
        return None if self._max_jobs is None else max(0, self._max_jobs - self.done)

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Redis being gone is no reason to end this worker while its child has a job: see `_watch`."""
        with store_errors():
            super(GuardedWorker, self).heartbeat(timeout, pipeline)

    # One child, from its fork to its end.

    def _have_a_child(self, *, burst: bool) -> None:
        bounds = [bound for bound in (self._jobs_left(), self._jobs_per_child) if bound is not None]
        limits = Limits(jobs=min(bounds, default=None), burst=burst, growth_bytes=GROWTH_BYTES)
        self._board.write(Note(started=self.clock.monotonic()))
        self._board.ask_to_leave(leave=self._stop_requested)
        self._horse_pid = self._fork(limits)
        self._watch()
        self._settle(self._reap())

    def _fork(self, limits: Limits) -> int:
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            raise RqbeatError(f"the system refuses a new process: {error}") from error
        if pid:
            with suppress(OSError):  # the child does it too; until one of them has, a kill of its group would be ours
                os.setpgid(pid, pid)
            return pid
        code = 1
        try:
            self._become_child(parent)
            code = Child(self, self.relay, self._board, limits).serve()
        except BaseException:
            log.exception("a child of the pool failed")
        finally:
            os._exit(code)

    def _become_child(self, parent: int) -> None:
        os.setpgid(0, 0)
        random.seed()
        self.setup_work_horse_signals()  # type: ignore[no-untyped-call]
        die_with_parent(parent)
        adopt_orphans()
        self._is_horse = True
        self._horse_pid = 0
        os.environ["RQ_WORKER_ID"] = self.name

    def _watch(self) -> None:
        """Until the child has ended. Redis being gone is for the child to say: it leaves when it has no job."""
        while not self._has_ended():
            if self._turn.is_due():
                self._look()
            self.clock.sleep(LOOK_SECONDS)

    def _has_ended(self) -> bool:
        with suppress(ChildProcessError):
            return os.waitid(os.P_PID, self._horse_pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def _reap(self) -> int:
        """The wait status; what the child's runs left behind ends with it."""
        status = self.wait_for_horse()[1]
        self._horse_pid = 0
        self.done = self._board.score().runs
        return status or 0

    # A turn.

    def _look(self) -> None:
        note = self._board.read()
        if self._stop_requested:  # a signal may have come while a child was made
            self._board.ask_to_leave()
        self._end_overdue(note)
        try:
            with store_errors():
                self._tell(note)
                self.look_around(self.get_state())
                if is_suspended(self.connection):
                    self._board.ask_to_leave()
            self._is_cut_off = False
        except StoreError as error:
            if not self._is_cut_off:
                log.warning("a child of the pool works on: %s", error)
            self._is_cut_off = True

    def _end_overdue(self, note: Note) -> None:
        now = self.clock.monotonic()
        if note.phase == Phase.RUNNING and now - note.started > note.timeout + OVERDUE_SECONDS:
            log.error("job %s holds its child past its time-out of %s s: killed", note.job_id, note.timeout)
            self._kill_run(note.job_id)
        if note.phase == Phase.IDLE and now - note.started > SILENT_SECONDS:
            log.error("a child of the pool is idle and silent: killed")
            self._kill_if(lambda later: later == note)

    def _tell(self, note: Note) -> None:
        """Tell RQ what the child is at."""
        state = WorkerStatus.IDLE if note.phase == Phase.IDLE else WorkerStatus.BUSY
        if state != self.get_state():
            self.set_state(state)
        if note.phase == Phase.RUNNING and self.clock.monotonic() - note.started >= WRITE_SECONDS:
            self._tell_of_run(note)
        elif state == WorkerStatus.BUSY and self.beat.is_due():
            self.heartbeat()
        if self._telling.is_due():
            self._tell_counts()

    def _tell_of_run(self, note: Note) -> None:
        """Write the run down once, and renew its lease from then on."""
        if note.token != self._written:
            self.relay.write_execution(note.job_id, note.token, self.name, note.wall / 1000, LEASE_SECONDS)
            self._written = note.token
        elif self.beat.is_due():
            BaseWorker.maintain_heartbeats(self, *self._held(note))
            self.intake.renew_lease(note.job_id, note.token, LEASE_SECONDS)

    def _tell_counts(self) -> None:
        """What RQ would count run by run. What the child ended in RQ's own way is counted by that."""
        score, told = self._board.score(), self._counted
        if score.successes == told.successes:
            return
        with store_errors(), self.connection.pipeline() as pipeline:
            pipeline.hincrby(self.key, "successful_job_count", score.successes - told.successes)
            pipeline.hincrbyfloat(self.key, "total_working_time", score.seconds - told.seconds)
            pipeline.execute()
        self._counted = score

    # What a child left behind.

    def _settle(self, status: int) -> None:
        """Give an end to what it held, and see why it left. Raises StoreError; then maintenance does it, in a while."""
        note, left = self._board.read(), os.waitstatus_to_exitcode(status)
        self._give_back_unstarted(note)
        if note.phase in {Phase.RUNNING, Phase.ENDING}:
            self._end_for(note, status)
        self.done = self._board.score().runs
        self._tell_counts()
        self.drained = left == Leave.DRAINED and note.phase == Phase.IDLE
        if left not in set(Leave) and note.phase == Phase.IDLE:
            log.warning("a child of the pool ended with %d while it had no job", left)
            self.clock.sleep(FIRST_PAUSE)
        if left == Leave.CUT_OFF and note.phase != Phase.RUNNING:
            raise StoreUnavailableError("a child of the pool lost Redis")

    def _give_back_unstarted(self, note: Note) -> None:
        if note.asked:
            self.give_back_asked(note.asked)
        if note.phase == Phase.HOLDING and note.job_id:
            self.give_back(note.job_id, note.token)

    def _end_for(self, note: Note, status: int) -> None:
        """Record the end of a run that did not live to do so."""
        job, execution = self._held(note)
        if self._stopped_job_id == job.id:
            self._handle_stopped_job(job, self.queues[0], execution)
            self._stopped_job_id = None
            self._board.count(success=False)
        elif self._is_running(job, execution):
            self._board.count(success=False)
            job.ended_at = rq_now()
            self.handle_work_horse_killed(job, None, status, None)
            self.handle_job_failure(job, self.queues[0], execution=execution)

    def _held(self, note: Note) -> tuple[GuardedJob, Execution]:
        """The job of a note and its run, as RQ's own code wants them."""
        job = GuardedJob(note.job_id, connection=self.connection, serializer=PayloadSerializer)
        job.restore(self.intake.record(note.job_id))
        job.origin = self.queues[0].name
        execution = Execution(note.token, note.job_id, self.connection, self.name)
        execution.created_at = utc_datetime(note.wall)
        return job, execution

    @contextmanager
    def _leaving_nothing(self) -> Iterator[None]:
        """A cold stop counts as a failed attempt; no child is left behind, whatever happens."""
        try:
            yield
        except BaseException as error:
            if self._horse_pid:
                cold = isinstance(error, SystemExit)
                self._cut_off_child("a cold stop of its worker" if cold else f"an error of its worker: {error}")
            raise

    def _cut_off_child(self, by: str) -> None:
        super().kill_horse()
        self._reap()
        note = self._board.read()
        with suppress(StoreError), store_errors():
            self._give_back_unstarted(note)
            if note.phase in {Phase.RUNNING, Phase.ENDING}:
                job, execution = self._held(note)
                job.ended_at = rq_now()
                self.handle_job_failure(job, self.queues[0], exc_string=f"cut off by {by}", execution=execution)
