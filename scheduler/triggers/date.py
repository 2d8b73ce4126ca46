"""Once.

The past is no reason to refuse a date: a fire that nobody acted on in time is a misfire, which is the schedule's
policy, not the trigger's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from scheduler.triggers.base import Instant, Instants, Trigger, TriggerType, iso, ms_at_or_after, settle


@dataclass(frozen=True, slots=True)
class Single:
    """One instant, in ms."""

    at: int

    def next_ms(self, after: int) -> int | None:
        return self.at if after < self.at else None

    def prev_ms(self, before: int) -> int | None:
        return self.at if before > self.at else None

    def count_ms(self, after: int, until: int) -> int:
        return int(after < self.at <= until)


@dataclass(frozen=True, slots=True, init=False)
class DateTrigger(Trigger):
    """Fires once, at `at`: epoch seconds or an aware datetime, from 1970 to 9999.

    A fraction of a millisecond is rounded up, so that it never fires before it was asked to. Raises `TriggerError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.DATETIME

    at: float
    instants: Instants = field(repr=False, compare=False)

    def __init__(self, at: Instant) -> None:
        ms = ms_at_or_after(at, "at")
        settle(self, at=ms / 1000, instants=Single(ms))

    def describe(self) -> str:
        return f"once at {iso(ms_at_or_after(self.at, 'at'))}"
