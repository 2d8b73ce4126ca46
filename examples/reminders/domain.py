"""What a reminder means. Rule: nothing here knows a clock, a timer, a queue or a database; time is an argument."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

NOTICE = timedelta(minutes=30)
"""A reminder that comes later than this before the start helps nobody."""
AHEAD = timedelta(hours=2)
"""A reminder that comes earlier than this before the start is forgotten again."""

Standing = Literal["sent", "due", "missed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """Something that starts at an instant (an aware datetime)."""

    id: str
    title: str
    starts_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Attendee:
    """Somebody who wants to be there."""

    email: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Mail:
    """What arrives."""

    to: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminder:
    """One attendee to be reminded of one workshop, once."""

    workshop: Workshop
    attendee: Attendee

    @property
    def key(self) -> str:
        """The same text for the same reminder, whoever handles it, however often."""
        return f"{self.workshop.id}/{self.attendee.email}"

    @property
    def mail(self) -> Mail:
        start = self.workshop.starts_at
        return Mail(
            to=self.attendee.email,
            subject=f"{self.workshop.title} starts at {start:%H:%M}",
            text=f"Dear {self.attendee.name},\n{self.workshop.title} starts on {start:%d %B at %H:%M %Z}.",
        )


def send_by(workshop: Workshop) -> datetime:
    """The deadline: no later than thirty minutes before the start. Computed here and nowhere else."""
    return workshop.starts_at - NOTICE


def starts_soon(workshop: Workshop, now: datetime) -> bool:
    """Whether `now` is a time to send this workshop's reminders."""
    return workshop.starts_at - AHEAD <= now <= send_by(workshop)


def standing(workshop: Workshop, now: datetime, *, is_sent: bool) -> Standing:
    """How a reminder stands at `now`."""
    if is_sent:
        return "sent"
    return "due" if now <= send_by(workshop) else "missed"
