"""The child of a pool: it takes a job, runs it, ends it and takes the next, until it is to leave.

A run that returned ends in the script that begins the next. Everything else, a run that raised, a record to refuse,
goes the way that it goes in a horse of its own: `worker.guard` does it, and this module calls it.

A child leaves, and the parent starts another, when it has run its number of jobs, when it has grown, when a run ended
by its time-out (which may have cut it off anywhere), and when a run left programs behind: these end with their child.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import partial
from typing import Any

from rq.executions import Execution
from rq.job import JobStatus
from rq.timeouts import JobTimeoutException
from rq.utils import now as rq_now

from shared.codec import encode
from shared.errors import StoreError, StoreUnavailableError
from shared.instants import utc_datetime
from shared.redisio.intake import Begun
from shared.redisio.relay import Ending, Next, Relay, Taking
from worker.guard.beats import LEASE_SECONDS
from worker.guard.job import DEFAULT_TIMEOUT, GuardedJob
from worker.guard.timeout import RunTimeout, RunTimeoutError
from worker.pool.board import Board, Note, Phase
from worker.pool.growth import Growth
from worker.pool.held import HeldGuard
from worker.site import Site, taking_place_at

TURN_SECONDS = 1
BEGUN_AT_ONCE = 50  # ids that are taken off the list of those that have not begun, in one go
WRITTEN_SECONDS = 0.4  # a run that lasted so long may have an execution of its own; see `worker.WRITE_SECONDS`

log = logging.getLogger("rqbeat.worker")


class Leave(IntEnum):
    """Why a child left in good order, as its exit code; any other code is an accident."""

    DONE = 0
    DRAINED = 10
    CUT_OFF = 11
    """Redis is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a child leaves. `jobs` it may run, None for any number; with `burst` when the queue is empty."""

    jobs: int | None = None
    burst: bool = False
    growth_bytes: int


@dataclass(slots=True)
class _Run:
    """The job at hand."""

    job: GuardedJob
    token: str
    begun: Begun
    stale: list[str]
    started: float
    wall: int


class Child:
    """One child, for one queue. `worker` is the parent's object as the fork copied it."""

    def __init__(self, worker: HeldGuard, relay: Relay, board: Board, limits: Limits) -> None:
        self._worker = worker
        self._relay = relay
        self._board = board
        self._limits = limits
        self._growth = Growth(limits.growth_bytes)
        self._begun: list[str] = []
        self._done = 0
        self._asked: Taking
        """How a job was asked for last."""
        self._leave: Leave | None = None

    def serve(self) -> Leave:
        """Work until it is time to leave. Blocks."""
        found: Next | None = Next()
        try:
            while found is not None:
                found = self._deal(found)
            self._forget_begun()
        except StoreError as error:
            log.warning("a child of the pool leaves: %s", error)
            return Leave.CUT_OFF
        return self._leave or Leave.DONE

    def _deal(self, found: Next) -> Next | None:
        """What there is to do after what was found; None when it is time to leave."""
        for entry, why in found.dropped.items():
            log.warning("%r is dropped: %s", entry[:100], why.decode(errors="replace"))
        if found.error is not None:
            raise StoreUnavailableError(found.error)
        if found.job_id is not None:
            return self._run(found)
        if found.entry is not None:
            return self._look_closer(found.entry)
        if not self._may_take():
            return None
        return self._wait()

    # Taking.

    def _may_take(self) -> bool:
        return self._leave is None and not self._board.is_to_leave and self._done != self._limits.jobs

    def _wait(self) -> Next | None:
        """Ask for a job, wait for one when there is none; None when the queue is empty and that is the end."""
        found = self._ask()
        if not found.is_nothing:
            return found
        if self._limits.burst:
            self._leave = Leave.DRAINED
            return None
        self._forget_begun()
        entry = self._worker.intake.pop(TURN_SECONDS)
        return Next() if entry is None else self._claim(entry)

    def _ask(self) -> Next:
        taking = self._taking()
        self._board.write(Note(asked=taking.token, started=self._worker.clock.monotonic()))
        return self._relay(None, taking, self._worker.name)

    def _claim(self, entry: bytes) -> Next:
        """Begin the run of an id that was popped."""
        taking = self._taking(entry)
        self._board.write(Note(phase=Phase.HOLDING, job_id=_name(entry), asked=taking.token))
        return self._relay(None, taking, self._worker.name)

    def _taking(self, entry: bytes | None = None) -> Taking:
        begun: list[str] = []
        if entry is None and len(self._begun) >= BEGUN_AT_ONCE:
            begun, self._begun = self._begun, begun
        self._asked = Taking(
            worker=self._worker.name,
            token=uuid.uuid4().hex,
            at=self._worker.clock.now_ms(),
            lease_seconds=LEASE_SECONDS,
            entry=entry,
            begun=begun,
        )
        return self._asked

    def _forget_begun(self) -> None:
        self._relay.forget_begun(self._begun)
        self._begun = []

    def _look_closer(self, entry: bytes) -> Next:
        """An id that the script did not take for a job: as in a worker that forks, it is looked at and refused."""
        self._board.write(Note(phase=Phase.HOLDING, job_id=_name(entry)))
        job = self._worker.admit(entry)
        if job is None:
            return Next()
        found = self._claim(entry)
        if found.entry is not None:
            self._worker.intake.refuse(job.id, "its record can't be read by a pool", entry=entry)
        return replace(found, entry=None)

    # Running.

    def _run(self, found: Next) -> Next | None:
        run = self._begin(found)
        if run is None:
            return Next()
        self._done += 1
        try:
            value = self._perform(run)
        except BaseException as error:  # noqa: BLE001 - RQ records whatever a run raises, SystemExit as well
            return self._fail(run, error)
        return self._succeed(run, value)

    def _begin(self, found: Next) -> _Run | None:
        """The run that was claimed; None when it must not be, or is not to be any more."""
        job_id, token = found.job_id or "", self._asked.token
        self._board.write(Note(phase=Phase.HOLDING, job_id=job_id, token=token))
        job = GuardedJob(job_id, connection=self._worker.connection, serializer=self._worker.serializer)
        job.restore(found.fields)
        if job.refusal is not None:
            self._worker.refuse_begun(job, token)
            return None
        if self._board.is_to_leave:
            self._worker.give_back(job_id, token)
            return None
        self._begun.append(job_id)
        job.origin = self._worker.queues[0].name
        return self._started(job, token, found)

    def _started(self, job: GuardedJob, token: str, found: Next) -> _Run:
        worker, clock = self._worker, self._worker.clock
        wall = self._asked.at
        job.worker_name, job.started_at = worker.name, utc_datetime(wall)
        job.last_heartbeat, job._status = job.started_at, JobStatus.STARTED  # noqa: SLF001 - as RQ's `prepare_for_execution`
        begun = Begun(
            now=self._redis_now(job, wall),
            attempt=found.attempt,
            last_error=found.fields.get(b"last_error", b"").decode(errors="replace") or None,
            checkpoint=found.checkpoint,
        )
        stale = [name for name in ("last_error", "put_backs") if name.encode() in found.fields]
        return _Run(job=job, token=token, begun=begun, stale=stale, started=clock.monotonic(), wall=wall)

    def _redis_now(self, job: GuardedJob, wall: int) -> int:
        """A deadline is held against Redis' clock; who has none needs no round trip for it."""
        if job.fire is None or job.fire.deadline is None:
            return wall
        return int(self._worker.runs.now() * 1000)

    def _perform(self, run: _Run) -> Any:
        job, worker = run.job, self._worker
        timeout = int(job.timeout or DEFAULT_TIMEOUT)
        os.environ["RQ_JOB_ID"] = job.id
        site = Site(job_id=job.id, begun=run.begun, runs=worker.runs, memory_seconds=job.memory_seconds)
        note = Note(phase=Phase.RUNNING, job_id=job.id, token=run.token, started=run.started, wall=run.wall,
                    timeout=timeout)  # fmt: skip
        self._board.write(note)
        penalty = RunTimeout(timeout, JobTimeoutException, job_id=job.id)  # type: ignore[no-untyped-call]
        with taking_place_at(site), penalty:
            return job.perform()

    # Ending.

    def _succeed(self, run: _Run, value: Any) -> Next:
        job, worker = run.job, self._worker
        seconds = worker.clock.monotonic() - run.started
        self._consider_leaving(run, None)
        ttl = job.get_result_ttl(worker.default_result_ttl)
        if ttl is None or ttl <= 0:
            return self._end_slowly(run, partial(self._finalize_success, run, value))
        ending = Ending(
            job_id=job.id,
            token=run.token,
            ttl=ttl,
            value=None if value is None else encode(value),
            started=run.wall,
            ended=worker.clock.now_ms(),
            schedule=job.schedule,
            is_written=seconds >= WRITTEN_SECONDS,
            is_first=run.begun.attempt == 1 and not run.stale,
            stale=run.stale,
        )
        found = self._hand_over(ending)
        if found.was == "lost":
            log.warning(
                "job %s (%s) returned after its run was given up: its result is dropped", job.description, job.id
            )
        else:
            log.info("job %s (%s) finished", job.description, job.id)
        self._board.count(success=True, seconds=seconds)
        return found

    def _hand_over(self, ending: Ending) -> Next:
        """End the run and begin the next. When Redis does not answer: end it, then see whether a next one began."""
        taking = self._taking() if self._may_take() else None
        asked = taking.token if taking else ""
        self._board.write(Note(phase=Phase.ENDING, job_id=ending.job_id, token=ending.token, asked=asked))
        try:
            return self._relay(ending, taking, self._worker.name)
        except StoreUnavailableError as error:
            log.warning("the end of job %s is told again: %s", ending.job_id, error)
        found = self._worker.patiently(partial(self._relay, ending, None, self._worker.name))
        if taking is not None:
            self._worker.patiently(partial(self._worker.give_back_asked, asked))
        return found

    def _fail(self, run: _Run, error: BaseException) -> Next:
        self._consider_leaving(run, error)
        reason = (type(error), error, error.__traceback__)
        return self._end_slowly(run, partial(self._finalize_failure, run, reason))

    def _end_slowly(self, run: _Run, end: Callable[[], None]) -> Next:
        """RQ's own way to end a run, which may push the job again: then it must be on the list of those that wait."""
        self._board.write(Note(phase=Phase.ENDING, job_id=run.job.id, token=run.token))
        self._worker.patiently(self._forget_begun)
        end()
        self._board.count(success=False)
        return Next()

    def _finalize_success(self, run: _Run, value: Any) -> None:
        self._worker.finalize_success(run.job, self._execution(run), value)

    def _finalize_failure(self, run: _Run, reason: Any) -> None:
        self._worker.finalize_failure(run.job, self._execution(run), reason)

    def _execution(self, run: _Run) -> Execution:
        execution = Execution(run.token, run.job.id, self._worker.connection, self._worker.name)
        execution.created_at = run.job.started_at or rq_now()
        return execution

    def _consider_leaving(self, run: _Run, error: BaseException | None) -> None:
        if isinstance(error, RunTimeoutError):
            self._retire("a run was cut off by its time-out")
        elif _has_children():
            self._retire(f"job {run.job.id} left programs behind")
        elif self._growth.is_too_much():
            self._retire("it has grown")

    def _retire(self, why: str) -> None:
        log.info("a child of the pool leaves: %s", why)
        self._leave = Leave.DONE


def _has_children() -> bool:
    """Whether a run left processes behind; nothing is reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _name(entry: bytes) -> str:
    """An id for the board; what is none has no run either."""
    return entry.decode(errors="replace") if len(entry) <= 500 and entry.isascii() else ""
