"""Which reminders are handed over now: the one place that turns a wake-up into work.

Rule: it is told what time it is, and never asks. Who wakes it up, how often, and who sends are others' affairs, so a
test of it is a function call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Protocol

from reminders.domain import Reminder, Workshop, send_by, starts_soon

HandOver = Callable[[Reminder, datetime], bool]
"""Gives a reminder, with the instant by which it must have been sent, to whoever sends it; whether this was new."""


class Enrolments(Protocol):
    """What the coordinator needs to read."""

    def workshops_after(self, now: datetime) -> Iterable[Workshop]:
        """The workshops that start after `now`."""
        ...

    def unsent(self, workshop: Workshop) -> Iterable[Reminder]:
        """The reminders of a workshop that have not been sent."""
        ...


class EnrollmentReminderCoordinator:
    """Scans for workshops that start soon and hands over one reminder per attendee.

    Two scans at once, or one after the other, hand the same reminders over; that each becomes one job is the promise of
    what stands behind `hand_over`. Nothing is remembered between scans: a cache of "due soon" would be wrong as soon as
    somebody enrols.
    """

    def __init__(self, enrolments: Enrolments, hand_over: HandOver) -> None:
        self._enrolments = enrolments
        self._hand_over = hand_over

    def scan(self, now: datetime) -> int:
        """Hand over what is due at `now`; how many reminders were new. Blocks for one handing-over after another."""
        return sum(self._hand_over(reminder, send_by(reminder.workshop)) for reminder in self._due(now))

    def _due(self, now: datetime) -> Iterator[Reminder]:
        for workshop in self._enrolments.workshops_after(now):
            if starts_soon(workshop, now):
                yield from self._enrolments.unsent(workshop)
