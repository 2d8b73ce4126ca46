"""How long a simulated year takes, beside the raw cost of the same next fires.

    python tests/bench/simulation.py

Ten five-minute schedules over a year are 1.05 million decisions; a 10 ms schedule over 30 days of outage is 259 million
nominal times. "fire by fire" decides each one through the planner; "ranges" jumps over what is decided alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from bench_jobs import Nothing

from scheduler import IntervalTrigger, SchedulerManager
from scheduler.testing import simulate

START = 1_767_225_600
YEAR = 365 * 86_400
DAY = 86_400


def ten_schedules() -> SchedulerManager:
    manager = SchedulerManager()
    for number in range(10):
        manager.schedule(Nothing, IntervalTrigger(300), id=f"s{number}", args=[number])
    return manager


def raw() -> int:
    trigger, count = IntervalTrigger(300), 0
    for _ in range(10):
        at = trigger.next_ms(START * 1000)
        while at is not None and at < (START + YEAR) * 1000:
            count += 1
            at = trigger.next_ms(at)
    return count


def outage() -> int:
    manager = SchedulerManager()
    manager.schedule(Nothing, IntervalTrigger(0.01), id="s", args=[1])
    return simulate(manager, START, START + 31 * DAY, outages=[(START + 1, START + 30 * DAY)]).count


WAYS: dict[str, Callable[[], int]] = {
    "raw next fires": raw,
    "a year, ranges": lambda: simulate(ten_schedules(), START, START + YEAR).count,
    "a year, fire by fire": lambda: simulate(ten_schedules(), START, START + YEAR, as_ranges=False).count,
    "30 days down at 10 ms": outage,
}


def main() -> None:
    for name, way in WAYS.items():
        started = time.perf_counter()
        count = way()
        print(f"{name:24} {count:13,} decisions {time.perf_counter() - started:8.3f} s")


if __name__ == "__main__":
    main()
