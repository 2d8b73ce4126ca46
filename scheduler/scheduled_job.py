"""`ScheduledJob`: the handle that registering returns. It is still callable, so that a decorated function stays one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any, Generic, Protocol, cast

from scheduler.schedule import Schedule
from scheduler.triggers import DateTrigger, Trigger
from shared import registry
from shared.arguments import parameters_of
from shared.job import Job, JobHandle, P, R_co

Handler = Callable[[], Awaitable[Any]]


class JobStatus(Enum):
    """Where a schedule stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Stored(Protocol):
    """What a store says of a schedule."""

    @property
    def status(self) -> str: ...
    @property
    def runs(self) -> int: ...
    @property
    def errors(self) -> int: ...


class Steward(Protocol):
    """What a handle asks of the manager that made it."""

    def pause(self, schedule_id: str) -> None: ...
    def resume(self, schedule_id: str) -> None: ...
    def cancel(self, schedule_id: str) -> None: ...
    def now(self) -> float: ...
    def view(self, schedule_id: str) -> Stored | None: ...


class ScheduledJob(Generic[P, R_co]):
    """A declared schedule, with the manager that declared it.

    `next_run_time` (epoch seconds) is what the declaration alone foretells. `runs`, `errors`, `current_instances` and
    `last_run_time` are about runs in this process; `to_dict` tells of all, once the manager is connected.
    """

    def __init__(self, manager: Steward, schedule: Schedule, func: Callable[..., Any], job: type[Job]) -> None:
        self.schedule = schedule
        self.func = func
        self.job = job
        self.status = JobStatus.ACTIVE
        self.next_run_time: float | None = None
        self.last_run_time: float | None = None
        self.created_at = manager.now()
        self.current_instances = self.runs = self.errors = 0
        self._manager = manager
        self.compute_next()

    @property
    def id(self) -> str:
        return self.schedule.id

    @property
    def name(self) -> str:
        return self.schedule.name

    @property
    def trigger(self) -> Trigger:
        return self.schedule.trigger

    def dispatch(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Send the job once, now, beside its schedule; see `Job.dispatch`."""
        return self.job.dispatch(*args, **kwargs)

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """`dispatch` for coroutines."""
        return await self.job.adispatch(*args, **kwargs)

    def pause(self) -> None:
        """Stop its fires until resumed."""
        self._manager.pause(self.id)

    def resume(self) -> None:
        """Let it fire again."""
        self._manager.resume(self.id)

    def cancel(self) -> None:
        """Stop its fires for good."""
        self._manager.cancel(self.id)

    def compute_next(self, now: float | None = None) -> None:
        """Set `next_run_time` to the first fire after `now` (epoch seconds; by default the manager's clock)."""
        after = self._manager.now() if now is None else now
        self.next_run_time = self.trigger.next_fire(after) if self.status is JobStatus.ACTIVE else None

    @property
    def args(self) -> tuple[Any, ...]:
        return self._arguments()[0]

    @property
    def kwargs(self) -> Mapping[str, Any]:
        return self._arguments()[1]

    def _arguments(self) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """The schedule's own, as `handle` takes them."""
        call = self.schedule.call
        return parameters_of(self.job).rebuild(call.args, call.kwargs)

    @property
    def max_instances(self) -> int:
        return self.schedule.policy.instances

    @property
    def coalesce(self) -> bool:
        return self.schedule.policy.overlap == "skip"

    @property
    def middleware(self) -> list[Callable[..., Any]]:
        """The schedule's own, outermost first."""
        return [registry.middleware.find(name) for name in self.schedule.call.middleware]

    def to_dict(self) -> dict[str, Any]:
        """The schedule for listings: as stored once the manager is connected (one blocking read), else as declared."""
        stored = self._manager.view(self.id)
        return {
            "id": self.id,
            "name": self.name,
            "status": stored.status if stored else self.status.value,
            "trigger": type(self.trigger).__name__,
            "next_run_time": self.next_run_time,
            "next_run": self.next_run_time,
            "runs": stored.runs if stored else self.runs,
            "errors": stored.errors if stored else self.errors,
            "max_instances": self.max_instances,
            "active_instances": self.current_instances,
            "coalesce": self.coalesce,
            "created_at": self.created_at,
        }

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """Call the function, or run the job class' handle, here and now."""
        if isinstance(self.func, type) and issubclass(self.func, Job):
            return cast("R_co", self.func().handle(*args, **kwargs))
        return cast("R_co", self.func(*args, **kwargs))

    async def run(self) -> Any:
        """Run the job once, in this process, with the schedule's arguments and middleware; None unless it is active."""
        if self.status is not JobStatus.ACTIVE:
            return None
        self.last_run_time = self._manager.now()
        self.current_instances += 1
        self.runs += 1
        try:
            return await self._run_wrapped()
        except Exception:
            self.errors += 1
            raise
        finally:
            self.current_instances -= 1
            if isinstance(self.trigger, DateTrigger):
                self.status = JobStatus.COMPLETED

    async def _run_wrapped(self) -> Any:
        handler: Handler = self._handle
        for wrap in reversed(self.middleware):
            handler = await wrap(handler, self)
        return await handler()

    async def _handle(self) -> Any:
        args, kwargs = self._arguments()
        returned: Any = self(*args, **kwargs)
        return await returned if inspect.isawaitable(returned) else returned

    def __repr__(self) -> str:
        return f"<ScheduledJob {self.id!r} {self.trigger.describe()}>"
