"""What people type: `python -m reminders.admin`. Synchronous throughout; the queue is its bridge to the workers' async.

Rule: this edge asks what time it is, once per command, and hands it on.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from reminders.domain import Attendee, Standing, Workshop, send_by, standing
from reminders.jobs import hand_over_again, open_store
from reminders.store import Store


def seed(store: Store, now: datetime, starts_in: timedelta, attendees: int) -> Workshop:
    """Announce a workshop that starts `starts_in` after `now`. The same call twice is an error, not two workshops."""
    starts_at = now + starts_in
    workshop = Workshop(id=f"w-{starts_at:%Y%m%dT%H%M%S}", title="Clocks and Queues", starts_at=starts_at)
    store.add(workshop, (Attendee(email=f"a{n}@example.org", name=f"Attendee {n}") for n in range(attendees)))
    return workshop


def standings(store: Store, workshop: Workshop, now: datetime) -> Counter[Standing]:
    """How many of a workshop's reminders are sent, due and missed at `now`."""
    return Counter(standing(workshop, now, is_sent=is_sent) for _, is_sent in store.reminders(workshop))


def replay(store: Store, workshop_id: str) -> int:
    """Hand over again what was not sent; how many reminders. Returns when their jobs are queued, not when they ran.

    Past the deadline the workers drop them: a replay bends no rule.
    """
    workshops = [workshop for workshop in store.workshops() if workshop.id == workshop_id]
    return sum(hand_over_again(reminder, send_by(found)) for found in workshops for reminder in store.unsent(found))


def main() -> None:
    """Run one command."""
    arguments, store, now = _arguments(), open_store(), datetime.now(UTC)  # noqa: TID251 - the edge asks for the time
    if arguments.command == "seed":
        workshop = seed(store, now, timedelta(minutes=arguments.minutes), arguments.attendees)
        print(f"{workshop.id}: {arguments.attendees} reminders, to be sent by {send_by(workshop):%H:%M:%S} UTC")
    elif arguments.command == "replay":
        print(f"{replay(store, arguments.workshop)} reminders handed over")
    else:
        print("\n".join(_lines(store, now)) or "no workshops: try `python -m reminders.admin seed`")


def _lines(store: Store, now: datetime) -> Iterator[str]:
    for workshop in store.workshops():
        counts = standings(store, workshop, now)
        numbers = ", ".join(f"{counts[name]} {name}" for name in ("sent", "due", "missed"))
        yield f"{workshop.id}: starts {workshop.starts_at:%H:%M:%S} UTC, {numbers}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m reminders.admin")
    commands = parser.add_subparsers(dest="command", required=True)
    seeding = commands.add_parser("seed", help="announce a workshop")
    seeding.add_argument("--minutes", type=float, default=45, help="until it starts (45)")
    seeding.add_argument("--attendees", type=int, default=40, help="how many come (40)")
    commands.add_parser("status", help="sent, due and missed reminders of each workshop")
    replaying = commands.add_parser("replay", help="hand over again what was not sent")
    replaying.add_argument("workshop", help="its id, as `status` shows it")
    return parser.parse_args()


if __name__ == "__main__":
    main()
