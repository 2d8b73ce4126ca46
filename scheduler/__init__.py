"""When: triggers, schedules, the planner, and the beat that makes plans true.

Rule of this package: what decides is pure (triggers, schedule, planner, reconcile), what acts is the shell around it
(beat, leader, store, admin), and `wiring` alone joins the two. It never imports `worker`. Nothing happens at import:
a public name is loaded when it is first used, so that a command that needs one trigger loads no more.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scheduler.hosting import setup_scheduler
    from scheduler.manager import SchedulerManager, SchedulerStats
    from scheduler.scheduled_job import JobStatus, ScheduledJob
    from scheduler.triggers import (
        CompoundLogic,
        CompoundTrigger,
        CronParser,
        CronTrigger,
        DateTrigger,
        IntervalTrigger,
        TriggerType,
    )

__all__ = [
    "CompoundLogic",
    "CompoundTrigger",
    "CronParser",
    "CronTrigger",
    "DateTrigger",
    "IntervalTrigger",
    "JobStatus",
    "ScheduledJob",
    "SchedulerManager",
    "SchedulerStats",
    "TriggerType",
    "setup_scheduler",
]

_HOMES = {
    "SchedulerManager": "scheduler.manager",
    "SchedulerStats": "scheduler.manager",
    "setup_scheduler": "scheduler.hosting",
    "JobStatus": "scheduler.scheduled_job",
    "ScheduledJob": "scheduler.scheduled_job",
}


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'scheduler' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES.get(name, "scheduler.triggers")), name)
