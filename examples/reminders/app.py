"""The one schedule: a scan at every full minute.

cd examples && rqbeat dev reminders.app:scheduler
"""

from __future__ import annotations

from reminders.jobs import ScanWorkshops
from scheduler import CronTrigger, SchedulerManager

scheduler = SchedulerManager()
scheduler.schedule(ScanWorkshops, CronTrigger("* * * * *"), id="scan-workshops", tags=["reminders"])
