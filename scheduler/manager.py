"""`SchedulerManager`: the public face. It collects declarations; the beat makes them true.

Declaring touches nothing outside the process. `start` runs a beat beside the event loop it is awaited in; from then on,
and after `connect`, `pause`, `resume`, `cancel` and `remove` change what is stored as well.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, Unpack, overload

from scheduler.eager import EagerBeat
from scheduler.schedule import Schedule, ScheduleOptions, build
from scheduler.scheduled_job import JobStatus, ScheduledJob
from scheduler.triggers import CronTrigger, IntervalTrigger, Trigger
from shared.clock import Clock, SystemClock
from shared.errors import AlreadyExistsError, ConfigurationError, NotFoundError
from shared.job import Handles, P, R_co, check_importable, job_of_function
from shared.outbox import is_eager
from shared.settings import Settings, load

if TYPE_CHECKING:
    from scheduler.admin import Admin
    from scheduler.readers import Reader, ScheduleView
    from scheduler.wiring import RunningBeat


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStats:
    """Schedules and runs in numbers."""

    jobs_total: int = 0
    jobs_active: int = 0
    jobs_paused: int = 0
    runs_total: int = 0
    errors_total: int = 0
    uptime_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Problem:
    """A declaration that could not be made: where it stands in the user's code, and what is wrong with it."""

    where: str
    message: str


collected_problems: ContextVar[list[Problem] | None] = ContextVar("collected_problems", default=None)
"""Where problems go while an app is being checked; elsewhere they are raised."""


class Declaring(Protocol):
    """A decorator for a function or a Job subclass, which becomes a schedule and takes the same arguments."""

    @overload
    def __call__(self, func: type[Handles[P, R_co]], /) -> ScheduledJob[P, R_co]: ...
    @overload
    def __call__(self, func: Callable[P, R_co], /) -> ScheduledJob[P, R_co]: ...


class SchedulerManager:
    """The schedules that an app declares.

    `url` and `namespace` say where they are to be stored, `version` guards a newer app's declarations against an older
    one's; each defaults to the settings in force when they are first needed.
    """

    def __init__(
        self,
        url: str | None = None,
        namespace: str | None = None,
        version: str | None = None,
        clock: Clock | None = None,
    ) -> None:
        if version is not None and not isinstance(version, str):
            raise ConfigurationError(f'version: text such as "1.4.2", got {version!r:.80}')
        self.given = {"url": url, "namespace": namespace, "version": version}
        self._clock = clock or SystemClock()
        self._declared: dict[str, ScheduledJob] = {}
        self._admin: Admin | None = None
        self._reader: Reader | None = None
        self._beat: RunningBeat | EagerBeat | None = None
        self._started_at: float | None = None

    @overload
    def schedule(
        self, func: type[Handles[P, R_co]], trigger: Trigger, **options: Unpack[ScheduleOptions]
    ) -> ScheduledJob[P, R_co]: ...
    @overload
    def schedule(
        self, func: Callable[P, R_co], trigger: Trigger, **options: Unpack[ScheduleOptions]
    ) -> ScheduledJob[P, R_co]: ...
    def schedule(self, func: Any, trigger: Trigger, **options: Unpack[ScheduleOptions]) -> ScheduledJob:
        """Declare that a job (a Job subclass, or a function that becomes one) runs whenever `trigger` fires.

        Once connected, it is stored at once (one blocking call), as made at run time: a restart does not remove it.
        Raises ConfigurationError for anything wrong with it, AlreadyExistsError when its id is taken.
        """
        return self._declare(func, make_trigger=lambda: trigger, options=options)  # type: ignore[no-any-return]

    def every(self, seconds: float, **options: Unpack[ScheduleOptions]) -> Declaring:
        """Decorate a function or a Job subclass: it runs every so many seconds, on a grid from the epoch."""
        if callable(seconds):
            return _not_called(seconds, "every", "60")
        return partial(self._declare, make_trigger=lambda: IntervalTrigger(seconds), options=options)

    def cron(self, expression: str, *, timezone: str | None = None, **options: Unpack[ScheduleOptions]) -> Declaring:
        """Decorate a function or a Job subclass: it runs when a cron expression says so, in UTC or the zone named."""
        if callable(expression):
            return _not_called(expression, "cron", '"0 6 * * *"')
        make_trigger = partial(CronTrigger, expression, timezone=timezone)
        return partial(self._declare, make_trigger=make_trigger, options=options)

    def get(self, schedule_id: str) -> ScheduledJob | None:
        """A declared schedule, or None."""
        return self._declared.get(schedule_id)

    def list(self, status: JobStatus | None = None) -> list[ScheduledJob]:
        """The declared schedules, all or those of one status, in the order of their declaration."""
        return [job for job in self._declared.values() if status is None or job.status is status]

    def pause(self, schedule_id: str, note: str = "") -> None:
        """Stop a schedule's fires until it is resumed. Raises NotFoundError."""
        self._change(schedule_id, JobStatus.PAUSED, lambda admin: admin.pause(schedule_id, note))

    def resume(self, schedule_id: str, note: str = "") -> None:
        """Let a paused schedule fire again. Raises NotFoundError."""
        self._change(schedule_id, JobStatus.ACTIVE, lambda admin: admin.resume(schedule_id, note))

    def cancel(self, schedule_id: str, note: str = "") -> None:
        """Stop a schedule's fires for good. Raises NotFoundError."""
        self._change(schedule_id, JobStatus.CANCELLED, lambda admin: admin.cancel(schedule_id, note))

    def remove(self, schedule_id: str, note: str = "") -> None:
        """Forget a schedule. Raises NotFoundError."""
        self._change(schedule_id, JobStatus.CANCELLED, lambda admin: admin.remove(schedule_id, note))
        self._declared.pop(schedule_id, None)

    @property
    def schedules(self) -> Sequence[Schedule]:
        """What is declared, as data."""
        return [job.schedule for job in self._declared.values()]

    @property
    def queues(self) -> set[str]:
        """The queues that the declared schedules name."""
        return {job.schedule.options.queue for job in self._declared.values()}

    def settings(self) -> Settings:
        """The settings in force, with what this manager was given."""
        return load().of_app(self)

    def now(self) -> float:
        """The manager's clock, epoch seconds."""
        return self._clock.now_ms() / 1000

    def connect(self) -> None:
        """From now on, changes are made in Redis too, and counts are read there. Nothing is sent yet."""
        from scheduler.wiring import open_admin, open_reader  # noqa: PLC0415 - declaring needs no redis

        self._admin, self._reader = open_admin(self.settings(), self._clock), open_reader(self.settings())

    @property
    def stats(self) -> SchedulerStats:
        """Schedules and runs in numbers: as stored, once connected (one blocking read), else as declared."""
        uptime = 0.0 if self._started_at is None else self._clock.monotonic() - self._started_at
        if self._reader:
            views = self._reader.schedules()
            rows = [(view.status, view.runs, view.errors) for view in views]
        else:
            rows = [(job.status.value, job.runs, job.errors) for job in self._declared.values()]
        return SchedulerStats(
            jobs_total=len(rows),
            jobs_active=sum(status == "active" for status, _, _ in rows),
            jobs_paused=sum(status == "paused" for status, _, _ in rows),
            runs_total=sum(runs for _, runs, _ in rows),
            errors_total=sum(errors for _, _, errors in rows),
            uptime_seconds=uptime,
        )

    def view(self, schedule_id: str) -> ScheduleView | None:
        """A schedule as stored, or None while this manager is not connected or nothing is stored."""
        try:
            return self._reader.schedule(schedule_id) if self._reader else None
        except NotFoundError:
            return None

    async def apause(self, schedule_id: str, note: str = "") -> None:
        """`pause` for coroutines: the event loop goes on meanwhile."""
        await asyncio.to_thread(self.pause, schedule_id, note)

    async def aresume(self, schedule_id: str, note: str = "") -> None:
        """`resume` for coroutines."""
        await asyncio.to_thread(self.resume, schedule_id, note)

    async def acancel(self, schedule_id: str, note: str = "") -> None:
        """`cancel` for coroutines."""
        await asyncio.to_thread(self.cancel, schedule_id, note)

    async def aremove(self, schedule_id: str, note: str = "") -> None:
        """`remove` for coroutines."""
        await asyncio.to_thread(self.remove, schedule_id, note)

    async def start(self) -> None:
        """Store the declarations and run a beat, in a thread beside this event loop, until `stop`.

        Of several beats on one Redis only one decides fires. Returns when Redis has answered; raises StoreError when it
        refuses.
        """
        if self._beat is None:
            self._beat = EagerBeat(self.schedules, self._clock) if is_eager() else await self._start_beat()
            self._started_at = self._clock.monotonic()

    async def stop(self) -> None:
        """End the beat and give its lease back. What is stored goes on: another beat takes over."""
        beat, self._beat = self._beat, None
        self._started_at = None
        if isinstance(beat, EagerBeat):
            await beat.stop()
        elif beat:
            await asyncio.to_thread(beat.stop)

    async def _start_beat(self) -> RunningBeat:
        from scheduler.wiring import RunningBeat  # noqa: PLC0415 - declaring needs no redis

        self.connect()
        return await asyncio.to_thread(RunningBeat.start, self.settings(), self.schedules, self._clock)

    def _declare(
        self, func: Any, *, make_trigger: Callable[[], Trigger], options: ScheduleOptions | Mapping[str, Any]
    ) -> Any:
        try:
            return self._add(func, make_trigger(), options)
        except (ConfigurationError, AlreadyExistsError) as error:
            return _note_problem(func, error)

    def _add(self, func: Any, trigger: Trigger, options: ScheduleOptions | Mapping[str, Any]) -> ScheduledJob:
        func = func.func if isinstance(func, ScheduledJob) else func
        job = job_of_function(func)
        check_importable(job)
        schedule = build(job, trigger, options, owner="runtime" if self._admin else "app")
        if schedule.id in self._declared:
            raise AlreadyExistsError(f"two schedules have the id {schedule.id!r}: give one of them its own, id=…")
        declared = self._declared[schedule.id] = ScheduledJob(self, schedule, func, job)
        if self._admin:
            self._admin.upsert([schedule], "declared while connected")
        return declared

    def _change(self, schedule_id: str, status: JobStatus, change: Callable[[Admin], object]) -> None:
        declared = self._declared.get(schedule_id)
        if self._admin:
            change(self._admin)
        elif declared is None:
            raise NotFoundError(f"no schedule {schedule_id!r} is declared")
        if declared:
            declared.status = status
            declared.compute_next()


def _not_called(func: Any, name: str, example: str) -> Declaring:
    """`@scheduler.every` without its brackets would take the function for the seconds, and declare nothing."""
    problem = ConfigurationError(f"@scheduler.{name} needs its rule: @scheduler.{name}({example})")
    noted: Declaring = _note_problem(func, problem)
    return noted


def _note_problem(func: Any, error: Exception) -> Any:
    """Raise it, or, while an app is being checked, note it and go on to find the others."""
    problems = collected_problems.get()
    if problems is None:
        raise error
    problems.append(Problem(_caller(), str(error)))
    return func


def _caller() -> str:
    """File and line of the user's code that made a declaration."""
    frames = traceback.walk_stack(None)
    place = next((frame, line) for frame, line in frames if frame.f_code.co_filename != __file__)
    return f"{place[0].f_code.co_filename}:{place[1]}"
