"""When: triggers, schedules, the planner, and the beat that makes plans true.

Rule of this package: what decides is pure (triggers, schedule, planner, reconcile), what acts is the shell around it
(beat, leader, store, admin), and `wiring` alone joins the two. It never imports `worker`. Nothing happens at import.
"""

from scheduler.manager import SchedulerManager
from scheduler.scheduled_job import JobStatus, ScheduledJob
from scheduler.triggers import CronParser, CronTrigger, DateTrigger, IntervalTrigger, TriggerType

__all__ = [
    "CronParser",
    "CronTrigger",
    "DateTrigger",
    "IntervalTrigger",
    "JobStatus",
    "ScheduledJob",
    "SchedulerManager",
    "TriggerType",
]
