"""The mail service, as the job sees it, and a stand-in for it that delivers into a SQLite file.

Rule: a service is told a key with each mail and delivers once per key, as those worth paying for do. That is the last
of three guards against a second mail, and the only one that holds when a worker is killed while the service answers.
"""

from __future__ import annotations

import asyncio
import hashlib
from pathlib import Path
from typing import Protocol

from reminders.database import transaction
from reminders.domain import Mail

TABLES = (
    "calls (key TEXT NOT NULL, outcome TEXT NOT NULL)",
    "deliveries (key TEXT NOT NULL, recipient TEXT NOT NULL, subject TEXT NOT NULL, at REAL NOT NULL"
    " DEFAULT ((julianday('now') - 2440587.5) * 86400))",  # epoch seconds by the service's own clock
)


class MailerBusyError(Exception):
    """The service took no mail now; trying again later is right."""


class Mailer(Protocol):
    """Delivers mails; asynchronous, since it waits for a network."""

    async def send(self, mail: Mail, *, key: str) -> None:
        """Deliver a mail unless one with this key was delivered before. Raises MailerBusyError."""
        ...


class SandboxMailer:
    """Delivers into a file, after a while, and is busy when first asked for one key in ten."""

    def __init__(self, path: Path, seconds: float = 0.02) -> None:
        self._path = path
        self._seconds = seconds

    async def send(self, mail: Mail, *, key: str) -> None:
        """See `Mailer.send`."""
        await asyncio.sleep(self._seconds)
        outcome = self._take(mail, key)
        await asyncio.sleep(self._seconds)
        if outcome == "busy":
            raise MailerBusyError(f"busy, so {key} was not delivered")

    def _take(self, mail: Mail, key: str) -> str:
        about = (mail.to, mail.subject)
        with transaction(self._path, TABLES) as db:
            is_first = db.execute("SELECT 1 FROM calls WHERE key = ?", (key,)).fetchone() is None
            is_done = db.execute("SELECT 1 FROM deliveries WHERE key = ?", (key,)).fetchone() is not None
            outcome = "busy" if is_first and is_busy_at_first(key) else "repeated" if is_done else "delivered"
            db.execute("INSERT INTO calls VALUES (?, ?)", (key, outcome))
            if outcome == "delivered":
                db.execute("INSERT INTO deliveries (key, recipient, subject) VALUES (?, ?, ?)", (key, *about))
        return outcome

    def calls(self) -> list[tuple[str, str]]:
        """What was asked of it, in order: key and outcome (delivered, repeated, busy)."""
        with transaction(self._path, TABLES) as db:
            return db.execute("SELECT key, outcome FROM calls ORDER BY rowid").fetchall()

    def deliveries(self) -> list[tuple[str, float]]:
        """What was delivered, in order: key and epoch seconds."""
        with transaction(self._path, TABLES) as db:
            return db.execute("SELECT key, at FROM deliveries ORDER BY rowid").fetchall()


def is_busy_at_first(key: str) -> bool:
    """Whether the first call for a key fails: one in ten, the same on every machine."""
    return hashlib.sha256(key.encode()).digest()[0] < 256 // 10
