"""The trigger engine: rules that yield instants, pure.

No clock, no I/O but the zone data that the standard library reads, no randomness, nothing of ours but `shared.errors`.

    base                        what a trigger is: the laws, instants, bounds
    zones, wall, localdays      zones as stretches of constant offset; wall times to instants; local days
    cronsyntax, crondays, cron  the cron dialect: text to masks, days of the calendar, triggers
    interval, date              a grid of elapsed time; once
    calendarinterval, rrule     every so many months; RFC 5545
    compound                    union, intersection, difference
    calendars                   holidays and blackout windows
    spread, plain               jitter; to plain data and back
"""

from scheduler.triggers.base import Duration, Instant, Trigger, TriggerType
from scheduler.triggers.calendarinterval import CalendarIntervalTrigger
from scheduler.triggers.calendars import BusinessDayTrigger, Calendar
from scheduler.triggers.compound import CompoundLogic, CompoundTrigger
from scheduler.triggers.cron import CronParser, CronTrigger
from scheduler.triggers.date import DateTrigger
from scheduler.triggers.interval import IntervalTrigger
from scheduler.triggers.plain import from_data, to_data
from scheduler.triggers.rrule import RRuleTrigger
from scheduler.triggers.spread import jitter_ms
from scheduler.triggers.zones import require_zone_data

__all__ = [
    "BusinessDayTrigger",
    "Calendar",
    "CalendarIntervalTrigger",
    "CompoundLogic",
    "CompoundTrigger",
    "CronParser",
    "CronTrigger",
    "DateTrigger",
    "Duration",
    "Instant",
    "IntervalTrigger",
    "RRuleTrigger",
    "Trigger",
    "TriggerType",
    "from_data",
    "jitter_ms",
    "require_zone_data",
    "to_data",
]
