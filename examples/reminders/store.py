"""Workshops, enrolments and which reminders were sent, in one SQLite file that several processes share.

Rule: whether a reminder was sent is changed by `mark_sent` alone. The file may lie on a volume that the containers of
one host share.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from reminders.database import transaction
from reminders.domain import Attendee, Reminder, Workshop

TABLES = (
    "workshops (id TEXT PRIMARY KEY, title TEXT NOT NULL, starts_at REAL NOT NULL)",
    """enrolments (
        workshop TEXT NOT NULL REFERENCES workshops, email TEXT NOT NULL, name TEXT NOT NULL,
        is_sent INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (workshop, email)
    )""",
)


class Store:
    """Reads and writes the file. Every call is one transaction and blocks for a moment."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, workshop: Workshop, attendees: Iterable[Attendee]) -> None:
        """Announce a workshop with those who come."""
        rows = [(workshop.id, attendee.email, attendee.name) for attendee in attendees]
        with transaction(self._path, TABLES) as db:
            db.execute(
                "INSERT INTO workshops VALUES (?, ?, ?)", (workshop.id, workshop.title, workshop.starts_at.timestamp())
            )
            db.executemany("INSERT INTO enrolments (workshop, email, name) VALUES (?, ?, ?)", rows)

    def workshops(self) -> list[Workshop]:
        """All of them, by start."""
        return self.workshops_after(datetime.fromtimestamp(0, UTC))

    def workshops_after(self, now: datetime) -> list[Workshop]:
        """Those that start after `now`, by start."""
        query = "SELECT id, title, starts_at FROM workshops WHERE starts_at > ? ORDER BY starts_at, id"
        with transaction(self._path, TABLES) as db:
            return [_workshop(row) for row in db.execute(query, (now.timestamp(),))]

    def unsent(self, workshop: Workshop) -> list[Reminder]:
        """The reminders of a workshop that have not been sent."""
        return [reminder for reminder, is_sent in self.reminders(workshop) if not is_sent]

    def reminders(self, workshop: Workshop) -> list[tuple[Reminder, bool]]:
        """All reminders of a workshop, each with whether it was sent."""
        query = "SELECT email, name, is_sent FROM enrolments WHERE workshop = ? ORDER BY email"
        with transaction(self._path, TABLES) as db:
            rows = db.execute(query, (workshop.id,)).fetchall()
        return [
            (Reminder(workshop=workshop, attendee=Attendee(email=email, name=name)), bool(is_sent))
            for email, name, is_sent in rows
        ]

    def find(self, workshop_id: str, email: str) -> tuple[Reminder, bool] | None:
        """One reminder and whether it was sent; None when the enrolment is gone."""
        query = (
            "SELECT id, title, starts_at, name, is_sent FROM workshops JOIN enrolments ON workshop = id "
            "WHERE id = ? AND email = ?"
        )
        with transaction(self._path, TABLES) as db:
            row = db.execute(query, (workshop_id, email)).fetchone()
        if row is None:
            return None
        return Reminder(workshop=_workshop(row[:3]), attendee=Attendee(email=email, name=row[3])), bool(row[4])

    def mark_sent(self, reminder: Reminder) -> bool:
        """Write down that a reminder was sent; whether this call did so. Calling it again changes nothing."""
        change = "UPDATE enrolments SET is_sent = 1 WHERE workshop = ? AND email = ? AND is_sent = 0"
        with transaction(self._path, TABLES) as db:
            return db.execute(change, (reminder.workshop.id, reminder.attendee.email)).rowcount == 1


def _workshop(row: tuple[str, str, float]) -> Workshop:
    return Workshop(id=row[0], title=row[1], starts_at=datetime.fromtimestamp(row[2], UTC))
