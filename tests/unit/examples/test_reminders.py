"""The example's inner side: time is an argument, so a test of it is a function call."""

from __future__ import annotations

import ast
import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"
sys.path.insert(0, str(EXAMPLES))

from reminders.coordinator import EnrollmentReminderCoordinator  # noqa: E402 - the example's folder had to be named first
from reminders.domain import Attendee, Reminder, Workshop, send_by, standing, starts_soon  # noqa: E402
from reminders.mailer import MailerBusyError, SandboxMailer, is_busy_at_first  # noqa: E402
from reminders.store import Store  # noqa: E402

START = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)
WORKSHOP = Workshop(id="w", title="Clocks", starts_at=START)
ATTENDEES = [Attendee(email=f"a{n}@example.org", name=f"A{n}") for n in range(3)]
REMINDERS = [Reminder(workshop=WORKSHOP, attendee=attendee) for attendee in ATTENDEES]


def before_start(**duration: float) -> datetime:
    return START - timedelta(**duration)


def test_the_deadline_is_thirty_minutes_before_the_start() -> None:
    assert send_by(WORKSHOP) == before_start(minutes=30)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (before_start(hours=2, seconds=1), False),
        (before_start(hours=2), True),
        (before_start(minutes=30), True),
        (before_start(minutes=29, seconds=59), False),
        (START + timedelta(days=1), False),
    ],
)
def test_a_workshop_starts_soon_from_two_hours_before_it_until_its_deadline(now: datetime, expected: bool) -> None:
    assert starts_soon(WORKSHOP, now) is expected


def test_a_reminder_is_sent_due_or_missed() -> None:
    in_time, late = before_start(minutes=31), before_start(minutes=29)
    assert (standing(WORKSHOP, in_time, is_sent=False), standing(WORKSHOP, late, is_sent=False)) == ("due", "missed")
    assert standing(WORKSHOP, late, is_sent=True) == "sent"


class Enrolments:
    """Workshops and what was not sent, in memory."""

    def __init__(self, *reminders: Reminder) -> None:
        self.left = list(reminders)

    def workshops_after(self, now: datetime) -> list[Workshop]:
        found = {reminder.workshop.id: reminder.workshop for reminder in self.left}
        return [workshop for workshop in found.values() if workshop.starts_at > now]

    def unsent(self, workshop: Workshop) -> list[Reminder]:
        return [reminder for reminder in self.left if reminder.workshop == workshop]


class Queue:
    """Takes each reminder once, as a dedupe key has it."""

    def __init__(self) -> None:
        self.taken: dict[str, datetime] = {}

    def hand_over(self, reminder: Reminder, deadline: datetime) -> bool:
        is_new = reminder.key not in self.taken
        self.taken.setdefault(reminder.key, deadline)
        return is_new


def test_a_scan_hands_each_due_reminder_over_with_its_deadline() -> None:
    queue = Queue()
    assert EnrollmentReminderCoordinator(Enrolments(*REMINDERS), queue.hand_over).scan(before_start(hours=1)) == 3
    assert queue.taken == {reminder.key: before_start(minutes=30) for reminder in REMINDERS}


def test_a_second_scan_hands_over_nothing_new() -> None:
    queue = Queue()
    coordinator = EnrollmentReminderCoordinator(Enrolments(*REMINDERS), queue.hand_over)
    assert [coordinator.scan(before_start(minutes=minutes)) for minutes in (60, 59)] == [3, 0]


def test_a_scan_sees_who_enrolled_since_the_last_and_leaves_out_what_was_sent() -> None:
    queue, enrolments = Queue(), Enrolments(REMINDERS[0])
    coordinator = EnrollmentReminderCoordinator(enrolments, queue.hand_over)
    coordinator.scan(before_start(minutes=60))
    enrolments.left = REMINDERS[1:]
    assert coordinator.scan(before_start(minutes=59)) == 2


@pytest.mark.parametrize("now", [before_start(hours=3), before_start(minutes=29), START])
def test_a_scan_too_early_or_too_late_hands_over_nothing(now: datetime) -> None:
    queue = Queue()
    assert EnrollmentReminderCoordinator(Enrolments(*REMINDERS), queue.hand_over).scan(now) == 0
    assert queue.taken == {}


@pytest.mark.parametrize("module", ["domain", "coordinator"])
def test_the_inner_modules_know_no_clock_no_queue_and_no_store(module: str) -> None:
    tree = ast.parse((EXAMPLES / "reminders" / f"{module}.py").read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    allowed = {"__future__", "collections.abc", "dataclasses", "datetime", "typing", "reminders.domain"}
    assert imported <= allowed
    assert named.isdisjoint({"now", "utcnow", "today"})


def test_a_reminder_is_marked_sent_once(tmp_path: Path) -> None:
    store = Store(tmp_path / "enrolments.db")
    store.add(WORKSHOP, ATTENDEES)
    assert [store.mark_sent(REMINDERS[1]), store.mark_sent(REMINDERS[1])] == [True, False]
    assert store.unsent(WORKSHOP) == [REMINDERS[0], REMINDERS[2]]
    assert store.find("w", "a1@example.org") == (REMINDERS[1], True)
    assert store.find("w", "stranger@example.org") is None


def test_the_mail_service_delivers_once_per_key_and_is_busy_at_first_for_some(tmp_path: Path) -> None:
    mailer, busy_key = (
        SandboxMailer(tmp_path / "mails.db", seconds=0),
        next(filter(is_busy_at_first, map(str, range(99)))),
    )
    with pytest.raises(MailerBusyError):
        asyncio.run(mailer.send(REMINDERS[0].mail, key=busy_key))
    for _ in range(2):
        asyncio.run(mailer.send(REMINDERS[0].mail, key=busy_key))
    assert [outcome for _, outcome in mailer.calls()] == ["busy", "delivered", "repeated"]
    assert len(mailer.deliveries()) == 1
