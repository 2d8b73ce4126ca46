"""What workers run, and how a reminder becomes a job.

Rule: this is the runtime's side. Retries, time-outs, start deadlines and dedupe keys are named here; what they are for
is the domain's affair, and when to scan is the schedule's.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from reminders.coordinator import EnrollmentReminderCoordinator
from reminders.domain import AHEAD, Reminder
from reminders.mailer import Mailer, SandboxMailer
from reminders.store import Store
from shared import Job, JobHandle, Retry


class SendReminder(Job):
    """Sends one reminder. Safe to run again, however the run before ended."""

    queue = "reminders"
    timeout = 10
    retry = Retry(max=5, backoff=1, factor=2, cap=60, jitter=0.2)

    async def handle(self, workshop: str, email: str) -> str:
        """The last step of a reminder: send, then write down that it was sent."""
        store = open_store()
        found = store.find(workshop, email)
        if found is None:
            return "enrolment withdrawn"
        reminder, is_sent = found
        if is_sent:
            return "sent before"
        # Killed in this block, a run leaves the mark in doubt. To repeat is right here, since the mailer knows the key.
        with self.ctx.once("mail", on_doubt="repeat") as first:
            if first:
                await open_mailer().send(reminder.mail, key=reminder.key)
        store.mark_sent(reminder)
        return "sent"


class ScanWorkshops(Job):
    """Wakes the coordinator. The fire's nominal time is its `now`: the same scan for the same fire, on any machine."""

    timeout = 50
    expires_in = 60
    """A scan that waited until the next one is due is stale: the next one finds the same reminders."""

    def handle(self) -> int:
        """How many reminders were handed over that no scan before had handed over."""
        if self.ctx.nominal is None:
            raise ValueError("a scan is fired by a schedule, which tells it the time")
        coordinator = EnrollmentReminderCoordinator(open_store(), hand_over)
        return coordinator.scan(datetime.fromtimestamp(self.ctx.nominal, UTC))


def hand_over(reminder: Reminder, send_by: datetime) -> bool:
    """Give a reminder to the workers under its key; whether this call did so. Blocks for one round trip.

    While the key holds there is one job for the reminder, and so one worker at a time that owns it. It holds for longer
    than any scan can find the reminder due.
    """
    return _send(reminder, send_by, dedupe_key=f"reminder:{reminder.key}", dedupe_ttl=AHEAD).created


def hand_over_again(reminder: Reminder, send_by: datetime) -> bool:
    """The same for a person who asks for it: also when the first job failed for good, but once a minute at most."""
    minute = timedelta(minutes=1)
    return _send(reminder, send_by, dedupe_key=f"replay:{reminder.key}", dedupe_ttl=minute).created


def open_store() -> Store:
    """The store of this installation."""
    return Store(_folder() / "enrolments.db")


def open_mailer() -> Mailer:
    """The mail service of this installation."""
    return SandboxMailer(_folder() / "mails.db")


def _send(reminder: Reminder, send_by: datetime, *, dedupe_key: str, dedupe_ttl: timedelta) -> JobHandle:
    """A run that starts by its deadline has ended by `send_by`, since its time-out would have ended it."""
    start_by = send_by - timedelta(seconds=SendReminder.timeout)
    call = SendReminder.options(deadline=start_by, dedupe_key=dedupe_key, dedupe_ttl=dedupe_ttl)
    return call.dispatch(reminder.workshop.id, reminder.attendee.email)


def _folder() -> Path:
    """`$DATA_DIR`, or `data/` beside this file: the same for workers and a shell, wherever they were started."""
    return Path(os.environ.get("DATA_DIR") or Path(__file__).parent / "data")
