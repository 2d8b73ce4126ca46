"""`ScheduledJob`: the handle that registering returns. It is still callable, so that a decorated function stays one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from scheduler.schedule import Schedule
from scheduler.triggers import Trigger
from shared.job import Job


class JobStatus(Enum):
    """Where a schedule stands."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


class Steward(Protocol):
    """What a handle asks of the manager that made it."""

    def pause(self, schedule_id: str) -> None: ...
    def resume(self, schedule_id: str) -> None: ...
    def cancel(self, schedule_id: str) -> None: ...
    def now(self) -> float: ...


class ScheduledJob:
    """A declared schedule, with the manager that declared it.

    `next_run_time` (epoch seconds) is what the declaration alone foretells; what is stored is read with `rqbeat list`.
    """

    def __init__(self, manager: Steward, schedule: Schedule, func: Callable[..., Any]) -> None:
        self.schedule = schedule
        self.func = func
        self.status = JobStatus.ACTIVE
        self.next_run_time: float | None = None
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

    def to_dict(self) -> dict[str, Any]:
        """What listings show of a declaration."""
        return {
            "id": self.id,
            "name": self.name,
            "status": self.status.value,
            "trigger": type(self.trigger).__name__,
            "next_run_time": self.next_run_time,
            "next_run": self.next_run_time,
            "max_instances": self.schedule.policy.instances,
            "coalesce": self.schedule.policy.overlap == "skip",
        }

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or run the job class' handle, here and now."""
        if isinstance(self.func, type) and issubclass(self.func, Job):
            return self.func().handle(*args, **kwargs)
        return self.func(*args, **kwargs)

    async def run(self) -> Any:
        """Run the job once, in this process, with the schedule's arguments."""
        if self.status is not JobStatus.ACTIVE:
            return None
        call = self.schedule.call
        returned = self(*call.args, **call.kwargs)
        if inspect.isawaitable(returned):
            return await returned
        await asyncio.sleep(0)
        return returned

    def __repr__(self) -> str:
        return f"<ScheduledJob {self.id!r} {self.trigger.describe()}>"
