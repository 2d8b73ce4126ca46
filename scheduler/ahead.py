"""What comes next: read from the timetable and planned before it is due, while there is nothing else to do.

    coming      entries of the timetable that are due within the next seconds, read in pieces
    in hand     plans that were made of them, each for its own due time: see `scheduler.hand`

All of it is without effect but on the time that a tick takes. What is missed here, because it was added or changed in
between, or because there is too much of it, is found when it is due.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from scheduler.definitions import Definitions
from scheduler.hand import Hand, is_for_the_hand
from scheduler.planner import plan
from scheduler.ports import DueRow, Planned, Timetable
from scheduler.schedule import Schedule

AHEAD_MS = 10_000
PLANNED_AT_ONCE = 50
READ_AT_ONCE = 4000
HELD = 100_000


class Ahead:
    """The plans of one beat that leads. Raises StoreError."""

    def __init__(self, timetable: Timetable, definitions: Definitions) -> None:
        self._timetable = timetable
        self._definitions = definitions
        self._hand = Hand()
        self._coming: deque[DueRow] = deque()
        self._covered = 0
        self._seen = 0

    @property
    def head(self) -> int | None:
        """The earliest due time of a plan in hand, ms."""
        return self._hand.head

    @property
    def is_busy(self) -> bool:
        """Whether there is more to be read or planned at once."""
        return bool(self._coming) or self._seen > 0

    def take(self, now: int, most: int) -> Sequence[Planned]:
        """Plans that are due, at most `most`."""
        return self._hand.take(now, most)

    def forget(self) -> None:
        """Drop everything."""
        self._hand.clear()
        self._coming.clear()
        self._covered = self._seen = 0

    def go_on(self, planned: Planned) -> None:
        """A schedule that fires again soon need not be read again: after its commit, its entry is known."""
        plan = planned.plan
        if plan.due is not None and plan.due <= self._covered:
            known = {"id": plan.schedule_id, "due": plan.due, "revision": planned.revision, "cursor": plan.cursor}
            self._coming.append(DueRow(**known, status="active"))  # type: ignore[arg-type]

    def work(self, head: int | None, now: int) -> None:
        """Read or plan a little. `head` is the earliest due time in the timetable."""
        if not self._coming:
            self._look(head, now)
        rows = [self._coming.popleft() for _ in range(min(PLANNED_AT_ONCE, len(self._coming)))]
        sound = [row for row in rows if not row.error and row.status == "active"]
        found = self._definitions.of(sound) if sound else {}
        for row in sound:
            definition = found[row.id]
            if not isinstance(definition, Exception):
                self._plan(row, *definition)

    def _look(self, head: int | None, now: int) -> None:
        """Read, in pieces, which schedules will be due soon: about twice in the time that is looked ahead."""
        until = now + AHEAD_MS
        is_near = head is not None and now < head <= until
        if not is_near or (self._covered > now + AHEAD_MS // 2 and not self._seen):
            self._seen = 0
            return
        room = min(READ_AT_ONCE, HELD - len(self._hand))
        rows = self._timetable.coming(until, self._seen, room) if room > 0 else ()
        self._coming.extend(row for row in rows if not self._hand.holds(row))
        self._seen = self._seen + room if len(rows) == room > 0 else 0
        if not self._seen:
            self._covered = until

    def _plan(self, row: DueRow, revision: int, schedule: Schedule) -> None:
        """What can't be planned is told of when it is due."""
        try:
            planned = Planned(schedule=schedule, revision=revision, plan=plan(schedule, row.cursor, row.due))
        except Exception:  # noqa: BLE001 - whatever it is, it is looked at again at the due time
            return
        if is_for_the_hand(planned, row.due):
            self._hand.add(planned)
