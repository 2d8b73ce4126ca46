"""Worker processes: what is set up before RQ is imported, one process for one queue, and when it ends with 0.

One queue per process: RQ pops from several by BLPOP, and a kill between pop and registration loses the job. With one it
moves the id to a list of its own.

    warm stop, drained burst, max jobs reached       0
    second signal                                    1
    RQ's loop ended in a way that nobody asked for   1: whoever started it restarts it
    Redis gone                                       no end: waits, and goes on when it is back
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal

from shared import registry
from shared.app import load_app
from shared.clock import Clock, SystemClock
from shared.errors import ConfigurationError, RqbeatError, StoreError, StoreRefusedError, StoreUnavailableError
from shared.job import job_options
from shared.options import check_queue
from shared.outbox import set_outbox
from shared.redisio.connection import Client, check_server, connect, store_errors
from shared.redisio.dispatch import Promoter, RedisOutbox
from shared.redisio.intake import Intake
from shared.redisio.presence import Presence
from shared.redisio.primary import PrimaryWatch
from shared.redisio.relay import Relay
from shared.redisio.runs import Runs
from shared.settings import Settings
from worker.chores import Chores
from worker.deadline import skew_problem
from worker.supervisor import Supervisor

if TYPE_CHECKING:
    from worker.guard import GuardedWorker

FIRST_WAIT = 0.5
LONGEST_WAIT = 5.0

Mode = Literal["fork", "pool"]

log = logging.getLogger("rqbeat.worker")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker command was asked to do. `processes` and `max_jobs` count for each queue and each process."""

    settings: Settings
    queues: Sequence[str] = ()
    processes: int = 1
    burst: bool = False
    max_jobs: int | None = None
    mode: Mode = "fork"
    max_jobs_per_child: int | None = None


def serve(order: Order, clock: Clock | None = None) -> int:
    """Load the app and work until the end; returns the exit code. Blocks.

    Raises ConfigurationError for a wrong app, queue or prefix, StoreRefusedError when Redis refuses at the start.
    """
    try:
        _listen()
        return _serve(order, clock or SystemClock())
    except _StoppedError:
        return 0


def _serve(order: Order, clock: Clock) -> int:
    _set_up_logging()
    _set_prefix(order.settings.keys.rq)
    app = load_app(order.settings.app)
    order = replace(order, settings=order.settings.of_app(app))
    _set_prefix(order.settings.keys.rq)
    slots = [queue for queue in _queues(order, app) for _ in range(order.processes)]
    if len(slots) == 1:
        return _Process(order, slots[0], clock).run()
    code = Supervisor(slots, lambda queue: _as_child(order, queue, clock), clock).run()
    while code == 0 and order.burst and _jobs_wait(order, slots):  # a job of one queue sent jobs to another
        code = Supervisor(slots, lambda queue: _as_child(order, queue, clock), clock).run()
    return code


def _jobs_wait(order: Order, queues: Sequence[str]) -> bool:
    keys = order.settings.keys
    with store_errors(), connect(order.settings.url) as client:
        return any(client.llen(keys.rq_queue(queue)) for queue in queues)


def _as_child(order: Order, queue: str, clock: Clock) -> int:
    """One process among several: an error of settings is told here, in one line, and ends them all."""
    try:
        return _Process(order, queue, clock).run()
    except (ConfigurationError, StoreRefusedError) as error:
        log.error("%s", error)  # noqa: TRY400 - one line, no traceback
        return 2


def _queues(order: Order, app: object) -> list[str]:
    """The queues that were asked for; else every one that a job or a schedule of the app names, and `default`."""
    of_jobs = {job_options(job).queue for job in registry.jobs.all().values()}
    named = order.queues or {"default", *of_jobs, *getattr(app, "queues", ())}
    return sorted({check_queue(name) for name in named})


def _set_prefix(prefix: str) -> None:
    """RQ reads its prefix once, when it is imported."""
    os.environ["RQ_KEY_PREFIX"] = prefix
    if "rq" not in sys.modules:
        return
    from rq.defaults import RQ_KEY_PREFIX  # noqa: PLC0415 - must not be imported before the line above

    if prefix != RQ_KEY_PREFIX:
        raise ConfigurationError(
            f"rq was imported with the key prefix {RQ_KEY_PREFIX!r}, and the namespace asks for {prefix!r}: "
            f"set RQ_KEY_PREFIX={prefix} before anything imports rq"
        )


def _set_up_logging() -> None:
    """To stderr, unless the app has its own. RQ gives its loggers handlers on stdout when nobody else has any."""
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")


class _StoppedError(BaseException):
    """A signal came while no job was at stake."""


def _listen() -> None:
    """End at once on a signal, while the app is loaded or Redis is waited for. Process 1 has no such default."""
    for sig in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sig, _stop_at_once)


def _stop_at_once(_signum: int, _frame: FrameType | None) -> None:
    raise _StoppedError


class _Process:
    """This process, for one queue."""

    def __init__(self, order: Order, queue: str, clock: Clock) -> None:
        self._order = order
        self._queue = queue
        self._clock = clock
        self._done = 0
        self._was_up = False

    def run(self) -> int:
        try:
            while (code := self._round()) is None:
                pass
        except _StoppedError:
            code = 0
        log.info("the worker of %s has ended", self._queue)
        return code

    def _round(self) -> int | None:
        """From a Redis that answers to the end of one worker; None when there is to be another."""
        _listen()
        self._wait_for_redis()
        try:
            with store_errors():
                worker = self._build()
                log.info("worker %s serves %s", worker.name, self._queue)
                worker.work(burst=self._order.burst, max_jobs=self._jobs_left(), logging_level="ERROR")
        except StoreError as error:
            self._pause(error)
            return None
        self._done += worker.done
        if worker.is_stopping or worker.drained or self._jobs_left() == 0:
            return 0
        if worker.broken is None:
            return 1
        self._pause(worker.broken)
        return None

    def _pause(self, error: RqbeatError) -> None:
        log.warning("the worker of %s pauses: %s", self._queue, error)
        self._clock.sleep(FIRST_WAIT)

    def _jobs_left(self) -> int | None:
        return None if self._order.max_jobs is None else self._order.max_jobs - self._done

    def _wait_for_redis(self) -> None:
        """Blocks until Redis can be worked with. Refusals at the start are raised, later ones waited out."""
        told, pause = "", FIRST_WAIT
        while (problem := self._problem()) is not None:
            if str(problem) != told:
                log.warning("waiting for Redis at %s: %s", self._order.settings.shown_url, problem)
                told = str(problem)
            self._clock.sleep(pause)
            pause = min(pause * 1.5, LONGEST_WAIT)
        self._was_up = True

    def _problem(self) -> StoreError | None:
        try:
            with connect(self._order.settings.url, name="rqbeat-worker") as client:
                warnings = check_server(client, self._order.settings.keys)
                if not self._was_up:
                    self._tell(warnings)
                return self._clock_problem(client)
        except StoreRefusedError as error:
            if not self._was_up:
                raise
            return error
        except StoreError as error:
            return error

    def _tell(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            log.warning("%s", warning)

    def _clock_problem(self, client: Client) -> StoreError | None:
        problem = skew_problem(self._clock.now_ms() / 1000, Runs(client, self._order.settings.keys).now())
        return StoreUnavailableError(problem) if problem else None

    def _build(self) -> GuardedWorker:
        settings, keys = self._order.settings, self._order.settings.keys
        ours = connect(settings.url, name="rqbeat-worker")
        rqs = connect(settings.url, name="rqbeat-worker-rq")
        watches = [PrimaryWatch(client, self._clock) for client in (ours, rqs)]
        set_outbox(RedisOutbox(ours, keys))  # what a job dispatches goes to where the job came from
        parts: dict[str, Any] = {
            "connection": rqs,
            "intake": Intake(rqs, keys, self._queue),
            "runs": Runs(rqs, keys),  # over the connection that a run needs anyway
            "chores": Chores(Promoter(ours, keys), Presence(ours, keys, "worker"), self._queue, self._clock, watches),
            "clock": self._clock,
        }
        return self._of_mode(rqs, parts)

    def _of_mode(self, client: Client, parts: dict[str, Any]) -> GuardedWorker:
        """The imports load rq, which reads its prefix then."""
        if self._order.mode == "fork":
            from worker.guard import GuardedWorker  # noqa: PLC0415

            return GuardedWorker(self._queue, **parts)
        from worker.pool import PoolWorker  # noqa: PLC0415

        relay = Relay(client, self._order.settings.keys, self._queue)
        return PoolWorker(self._queue, relay=relay, jobs_per_child=self._order.max_jobs_per_child, **parts)
