"""The apps that the benchmarks' beats run; how many schedules they declare is told by the environment."""

from __future__ import annotations

import os
from functools import cache

from bench_jobs import Nothing

from scheduler import IntervalTrigger, SchedulerManager

YEAR_2100 = 4_102_444_800

nothing_declared = SchedulerManager()
"""For stored schedules alone."""


def every_second() -> SchedulerManager:
    """Schedules of one second each; the n-th begins n steps after the first."""
    count, first, step, seconds = (int(part) for part in os.environ["RQBENCH_FORM"].split())
    manager = SchedulerManager()
    for number in range(count):
        start = (first + number * step) / 1000
        trigger = IntervalTrigger(1, start=start, end=start + seconds)
        manager.schedule(Nothing, trigger, id=str(number), args=[number], overlap="allow")
    return manager


def far_away() -> SchedulerManager:
    """Schedules none of which is due for a long time."""
    manager = SchedulerManager()
    for number in range(int(os.environ["RQBENCH_COUNT"])):
        manager.schedule(Nothing, IntervalTrigger(3600, start=YEAR_2100), id=f"far-{number}", args=[number])
    return manager


@cache
def __getattr__(name: str) -> SchedulerManager:
    """Made when it is asked for: each app reads variables that are set for it alone."""
    makers = {"every_second_app": every_second, "far_away_app": far_away}
    if name not in makers:
        raise AttributeError(name)
    return makers[name]()
