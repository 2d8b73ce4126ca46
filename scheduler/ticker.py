"""The tick: what is due is read, planned and committed, in batches, and what comes next is planned while there is time.

    in hand     plans that were made ahead of their due time: a tick only has to commit them
    found       what the timetable has as due and the hand has not: new, changed or late schedules, or more than a hand
                holds; planned while Redis works on the batch before

Either way a batch is one script call, and the next is made while that runs. Cost grows with what is due, never with
what exists. A schedule that can't be read, planned or committed is set aside by name, with its error, for a while that
doubles up to a minute; the others go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from scheduler.definitions import Definitions
from scheduler.failpoint import Point
from scheduler.hand import Hand, is_for_the_hand
from scheduler.pacing import Allowance, Troubles
from scheduler.planner import Fire, plan
from scheduler.ports import Committed, DueBatch, DueRow, Lease, Planned, PlanResult, Released, Renewal, Timetable
from scheduler.schedule import Schedule
from shared.clock import Clock
from shared.errors import NotFoundError, StoreError

BATCH = 250
FIRES_AT_ONCE = 500
READ_AT_ONCE = 4000
AHEAD_MS = 10_000
AHEAD_AT_ONCE = 50
HELD = 100_000
LOOK = 0
"""A head in the past: what is due is not known, so look."""


class Observer(Protocol):
    """Told of everything that was decided, and of trouble."""

    def committed(self, batch: Sequence[Planned], committed: Committed) -> None: ...
    def set_aside(self, schedule_id: str, error: str) -> None: ...
    def released(self, released: Released) -> None: ...
    def state(self, facts: dict[str, str | int]) -> None: ...


class Ticker:
    """Decides what is due for the beat that leads. Raises StoreError; what was not committed is then planned again."""

    def __init__(
        self,
        timetable: Timetable,
        clock: Clock,
        observer: Observer,
        may_go_on: Callable[[], bool],
        reached: Callable[[Point], None],
    ) -> None:
        """`may_go_on` is asked between two batches: a tick that has more to do than fits in a lease ends early."""
        self._timetable = timetable
        self._clock = clock
        self._observer = observer
        self._may_go_on = may_go_on
        self._reached = reached
        self._definitions = Definitions(timetable)
        self._troubles = Troubles()
        self._allowance = Allowance(clock)
        self._hand = Hand()
        self._coming: deque[DueRow] = deque()
        self._covered = 0
        self._seen = 0
        self._behind = 0
        self._head: int | None = LOOK
        self.has_waiting = False

    # When.

    def look(self) -> None:
        """Something may have changed: read what is due."""
        self._head = LOOK

    def forget(self) -> None:
        """Somebody else may have decided meanwhile: nothing that was read or planned is worth keeping."""
        self._hand.clear()
        self._coming.clear()
        self._covered = 0
        self._seen = 0
        self._head = LOOK

    def told(self, renewal: Renewal) -> None:
        """What a renewal of the lease has found beside it."""
        self._head = LOOK if self._head == LOOK else renewal.head
        self.has_waiting = renewal.waiting > 0
        self._behind = min(self._behind, self._offset(renewal.now))

    def seconds_to_next(self) -> float | None:
        """Until there is something to do; 0 or less: now. None for never."""
        if self._coming or self._seen:
            return 0.0
        heads = [head for head in (self._head, self._hand.head) if head is not None]
        return (min(heads) - self._now()) / 1000 if heads else None

    def is_due(self) -> bool:
        now = self._now()
        return any(head is not None and head <= now for head in (self._head, self._hand.head))

    def _now(self) -> int:
        """The instant that has come by this host's clock and by Redis', as far as that is known to be behind."""
        return self._clock.now_ms() - self._behind

    # What is due.

    def tick(self, lease: Lease) -> bool:
        """Decide what is due. False when fenced: another beat leads, and nothing was written."""
        now = self._now()
        head = self._hand.head
        batches = self._in_hand(now) if head is not None and head <= now else self._found(lease, now)
        for batch, committed in self._timetable.commits(lease, self._reaching(batches)):
            self._reached("after-commit")
            if committed is None:
                return False
            self._settle(lease, batch, committed)
        return True

    def _reaching(self, batches: Iterator[Sequence[Planned]]) -> Iterator[Sequence[Planned]]:
        for batch in batches:
            self._reached("before-commit")
            yield batch

    def _in_hand(self, now: int) -> Iterator[Sequence[Planned]]:
        while self._may_go_on() and (batch := self._hand.take(now, BATCH)):
            yield batch

    def _found(self, lease: Lease, now: int) -> Iterator[Sequence[Planned]]:
        batch = self._timetable.due(now, READ_AT_ONCE, self._allowance.left())
        self._reached("after-due")
        self.has_waiting = batch.waiting > 0
        self._behind += now - batch.now
        self._head = LOOK if batch.rows else self._next_look(batch)
        yield from self._bounded(self._plan_all(lease, batch.rows, batch.now))

    def _next_look(self, batch: DueBatch) -> int | None:
        """When there is something to decide next, after a look that found nothing.

        What is late and over the allowance waits for the next second.
        """
        if batch.head is None or batch.head > batch.now:
            return batch.head
        return batch.now + round(self._allowance.seconds_to_next() * 1000)

    def _bounded(self, plans: Iterator[Planned]) -> Iterator[Sequence[Planned]]:
        """Batches that one script may carry out without holding up Redis, as long as the allowance lasts."""
        batch: list[Planned] = []
        fires = late = 0
        for planned in plans:
            batch.append(planned)
            fires += len(planned.plan.decisions)
            late += _catch_up_fires(planned)
            if len(batch) == BATCH or fires >= FIRES_AT_ONCE or (late and late >= self._allowance.left()):
                self._allowance.take(late)
                self._reached("after-plan")
                yield batch
                if not self._may_go_on() or (late and not self._allowance.left()):
                    return
                batch, fires, late = [], 0, 0
        if batch:
            self._allowance.take(late)
            self._reached("after-plan")
            yield batch

    def _plan_all(self, lease: Lease, rows: Sequence[DueRow], now: int) -> Iterator[Planned]:
        for row, definition in self._read(rows):
            if isinstance(definition, NotFoundError):
                self._timetable.set_aside(lease, row.id, now, "it is gone")  # removed a moment ago: so is its entry
            elif isinstance(definition, Exception):
                self._set_aside(lease, row.id, f"can't be read: {definition}")
            elif row.status != "active":
                self._set_aside(lease, row.id, f"is {row.status}, yet in the timetable")
            else:
                yield from self._plan_one(lease, row, *definition, now)

    def _read(self, rows: Sequence[DueRow]) -> Iterator[tuple[DueRow, tuple[int, Schedule] | Exception]]:
        if not rows:
            return
        found = self._definitions.of([row for row in rows if not row.error])
        self._reached("after-load")
        yield from ((row, found.get(row.id) or StoreError(row.error)) for row in rows)

    def _plan_one(self, lease: Lease, row: DueRow, revision: int, schedule: Schedule, now: int) -> Iterator[Planned]:
        try:
            yield Planned(schedule=schedule, revision=revision, plan=plan(schedule, row.cursor, now))
        except Exception as error:  # noqa: BLE001 - one schedule's fault, of whatever kind, must not stop the others
            self._set_aside(lease, row.id, f"can't be planned: {type(error).__name__}: {error}")

    # What comes next.

    def plan_ahead(self) -> None:
        """Plan a few of the schedules that will be due soon. Without any effect but on the time that ticks take."""
        now = self._now()
        if not self._coming:
            self._look_ahead(now)
        rows = [self._coming.popleft() for _ in range(min(AHEAD_AT_ONCE, len(self._coming)))]
        for row, definition in self._read([row for row in rows if not row.error and row.status == "active"]):
            if not isinstance(definition, Exception):
                self._plan_for_later(row, *definition)
                self._reached("after-plan")

    def _look_ahead(self, now: int) -> None:
        """Read, in pieces, which schedules will be due soon: about twice in the time that is looked ahead."""
        until = now + AHEAD_MS
        is_near = self._head is not None and now < self._head <= until
        if not is_near or (self._covered > now + AHEAD_MS // 2 and not self._seen):
            self._seen = 0
            return
        room = min(READ_AT_ONCE, HELD - len(self._hand))
        rows = self._timetable.coming(until, self._seen, room) if room > 0 else ()
        self._reached("after-due")
        self._coming.extend(row for row in rows if not self._hand.holds(row))
        self._seen = self._seen + room if len(rows) == room > 0 else 0
        if not self._seen:
            self._covered = until

    def _plan_for_later(self, row: DueRow, revision: int, schedule: Schedule) -> None:
        """What can't be planned is told of when it is due."""
        try:
            planned = Planned(schedule=schedule, revision=revision, plan=plan(schedule, row.cursor, row.due))
        except Exception:  # noqa: BLE001 - whatever it is, it is looked at again at the due time
            return
        if is_for_the_hand(planned, row.due):
            self._hand.add(planned)

    # What came of it.

    def _settle(self, lease: Lease, batch: Sequence[Planned], committed: Committed) -> None:
        self._head = committed.head
        self._note_clock(committed)
        self._observer.committed(batch, committed)
        for index, planned in enumerate(batch):
            self._settle_one(lease, planned, committed.others.get(index))

    def _settle_one(self, lease: Lease, planned: Planned, other: PlanResult | None) -> None:
        schedule_id = planned.plan.schedule_id
        if other is None or other.code in {"ok", "already", "early", "held"}:
            self._troubles.forget(schedule_id)
        if other is None:
            self._go_on(planned)
        elif other.code == "error":
            self._set_aside(lease, schedule_id, other.detail)
        elif other.code in {"moved", "stale", "gone", "paused"}:
            self._definitions.forget(schedule_id)

    def _go_on(self, planned: Planned) -> None:
        """A schedule that fires again soon need not be read again: what it is decided up to is known."""
        plan = planned.plan
        if plan.due is None:
            self._definitions.forget(plan.schedule_id)
        elif plan.due <= self._covered:
            self._coming.append(
                DueRow(
                    id=plan.schedule_id,
                    due=plan.due,
                    revision=planned.revision,
                    status="active",
                    cursor=plan.cursor,
                )
            )

    def _note_clock(self, committed: Committed) -> None:
        """How far Redis' clock is behind: found out when a fire was early, and forgotten when it has caught up."""
        offset = self._offset(committed.now)
        is_early = any(other.code == "early" for other in committed.others.values())
        self._behind = offset if is_early else min(self._behind, offset)

    def _offset(self, redis_now: int) -> int:
        """By how much Redis' clock may be behind, ms, seen from a reply: what that took counts as well."""
        return max(0, self._clock.now_ms() - redis_now)

    def _set_aside(self, lease: Lease, schedule_id: str, error: str) -> None:
        self._definitions.forget(schedule_id)
        until = self._clock.now_ms() + self._troubles.next_ms(schedule_id)
        self._timetable.set_aside(lease, schedule_id, until, error)
        self._observer.set_aside(schedule_id, error)
        self._head = LOOK

    def release(self, lease: Lease) -> None:
        """Send on waiting fires whose predecessor has ended."""
        self.has_waiting = False
        for released in self._timetable.release_waiting(lease):
            self._observer.released(released)


def _catch_up_fires(planned: Planned) -> int:
    return sum(1 for decision in planned.plan.decisions if isinstance(decision, Fire) and decision.kind == "catchup")
