"""Every so many seconds, on a grid.

The grid has an anchor, so the n-th fire is `anchor + n * period` whatever happened before: no drift, and a restart
changes nothing. The default anchor is the epoch, which puts every 300 s on :00, :05, …. An interval counts elapsed
time: 24 hours are 86,400 s also on the night when the clocks change. For wall-clock time use cron or
`CalendarIntervalTrigger`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.triggers.base import (
    END_MS,
    FIRST_MS,
    Clipped,
    Duration,
    Instant,
    Instants,
    Trigger,
    TriggerType,
    clipped,
    seconds_of,
    settle,
    show,
    whole_ms_in,
    whole_ms_of,
)
from shared.errors import TriggerError

SHORTEST_MS = 10
"""The shortest period, in ms."""


@dataclass(frozen=True, slots=True)
class Grid:
    """All instants `anchor + n * period` (ms), n any integer."""

    anchor: int
    period: int

    def next_ms(self, after: int) -> int | None:
        return after + self.period - (after - self.anchor) % self.period

    def prev_ms(self, before: int) -> int | None:
        return before - 1 - (before - 1 - self.anchor) % self.period

    def count_ms(self, after: int, until: int) -> int:
        return (until - self.anchor) // self.period - (after - self.anchor) // self.period


@dataclass(frozen=True, slots=True, init=False)
class IntervalTrigger(Trigger):
    """Fires every `seconds` (s or timedelta, whole ms, from 0.01 s up).

    `start` (inclusive) is the first fire and the anchor of the grid; without it the grid is that of the epoch. `end` is
    exclusive. `jitter` (s) is the default spread of the schedule's due times: it never moves a nominal time.
    Raises `TriggerError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.INTERVAL

    seconds: float
    jitter: float
    start: float | None
    end: float | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(
        self, seconds: Duration, jitter: Duration = 0, start: Instant | None = None, end: Instant | None = None
    ) -> None:
        period = _period_of(seconds)
        anchor = 0 if start is None else whole_ms_of(start, "start")
        settle(self, seconds=period / 1000, jitter=whole_ms_in(jitter, "jitter") / 1000)
        settle(self, start=seconds_of(start), end=seconds_of(end))
        settle(self, instants=clipped(Clipped(Grid(anchor, period), FIRST_MS, END_MS), start, end))

    def describe(self) -> str:
        return f"every {self.seconds:.15g} s"


def _period_of(seconds: Duration) -> int:
    period = whole_ms_in(seconds, "seconds")
    if period < SHORTEST_MS:
        raise TriggerError(f"seconds: {show(seconds)} is too short: the shortest interval is 0.01 s")
    return period
