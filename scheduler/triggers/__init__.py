"""The trigger engine: rules that yield instants. Pure: no clock, no I/O, no randomness, nothing of ours but
`shared.errors`.

    base        what a trigger is: the laws, instants, bounds
    zones       time zones as stretches of constant offset
    wall        from wall-clock times to instants, clock changes included
    cronsyntax, crondays, cron      the cron dialect: text, days, triggers
    interval, date                  a grid; once
    plain       to plain data and back
"""

from scheduler.triggers.base import Duration, Instant, Trigger, TriggerType
from scheduler.triggers.cron import CronParser, CronTrigger
from scheduler.triggers.date import DateTrigger
from scheduler.triggers.interval import IntervalTrigger
from scheduler.triggers.plain import from_data, to_data
from scheduler.triggers.spread import jitter_ms
from scheduler.triggers.zones import require_zone_data

__all__ = [
    "CronParser",
    "CronTrigger",
    "DateTrigger",
    "Duration",
    "Instant",
    "IntervalTrigger",
    "Trigger",
    "TriggerType",
    "from_data",
    "jitter_ms",
    "require_zone_data",
    "to_data",
]
