"""The tick: what is due is read, planned and committed, in batches.

    in hand     plans that were made ahead of their due time (`scheduler.ahead`): a tick only has to commit them
    found       what the timetable has as due and the hand has not: new, changed or late schedules, or more than a hand
                holds; planned while Redis works on the batch before

Either way a batch is one script call, and the next is made while that runs. Cost grows with what is due, never with
what exists. A schedule that can't be read, planned or committed is set aside by name, with its error, for a while that
doubles up to a minute; the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.ahead import READ_AT_ONCE, Ahead
from scheduler.definitions import Definitions
from scheduler.failpoint import Point
from scheduler.pacing import Allowance, SlowerClock, Troubles
from scheduler.planner import Fire, plan
from scheduler.ports import Committed, DueBatch, DueRow, Lease, Planned, PlanResult, Released, Renewal, Timetable
from scheduler.schedule import Schedule
from shared.clock import Clock
from shared.errors import NotFoundError, StoreError

BATCH = 250
FIRES_AT_ONCE = 500
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
        self._common = SlowerClock(clock)
        self._observer = observer
        self._may_go_on = may_go_on
        self._reached = reached
        self._definitions = Definitions(timetable)
        self._troubles = Troubles()
        self._allowance = Allowance(clock)
        self._ahead = Ahead(timetable, self._definitions)
        self._head: int | None = LOOK
        self.has_waiting = False

    # When.

    def look(self) -> None:
        """Something may have changed: read what is due."""
        self._head = LOOK

    def forget(self) -> None:
        """Somebody else may have decided meanwhile: nothing that was read or planned is worth keeping."""
        self._ahead.forget()
        self._head = LOOK

    def told(self, renewal: Renewal) -> None:
        """What a renewal of the lease has found beside it."""
        self._head = LOOK if self._head == LOOK else renewal.head
        self.has_waiting = renewal.waiting > 0
        self._common.replied(renewal.now)

    def seconds_to_next(self) -> float | None:
        """Until there is something to do; 0 or less: now. None for never."""
        if self._ahead.is_busy:
            return 0.0
        heads = [head for head in (self._head, self._ahead.head) if head is not None]
        return (min(heads) - self._common.now_ms()) / 1000 if heads else None

    def is_due(self) -> bool:
        now = self._common.now_ms()
        return any(head is not None and head <= now for head in (self._head, self._ahead.head))

    # What is due.

    def tick(self, lease: Lease) -> bool:
        """Decide what is due. False when fenced: another beat leads, and nothing was written."""
        now = self._common.now_ms()
        head = self._ahead.head
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
        while self._may_go_on() and (batch := self._ahead.take(now, BATCH)):
            yield batch

    def _found(self, lease: Lease, now: int) -> Iterator[Sequence[Planned]]:
        batch = self._timetable.due(now, READ_AT_ONCE, self._allowance.left())
        self._reached("after-due")
        self.has_waiting = batch.waiting > 0
        self._common.looked(now, batch.now)
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
        batch = _Batch()
        for planned in plans:
            batch.add(planned)
            if batch.is_full(self._allowance.left()):
                yield self._charged(batch)
                if not self._may_go_on() or (batch.late and not self._allowance.left()):
                    return
                batch = _Batch()
        if batch.plans:
            yield self._charged(batch)

    def _charged(self, batch: _Batch) -> Sequence[Planned]:
        self._allowance.take(batch.late)
        self._reached("after-plan")
        return batch.plans

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

    def plan_ahead(self) -> None:
        """Prepare a little of what will be due soon."""
        self._ahead.work(self._head, self._common.now_ms())
        self._reached("after-plan")

    # What came of it.

    def _settle(self, lease: Lease, batch: Sequence[Planned], committed: Committed) -> None:
        self._head = committed.head
        self._common.replied(committed.now, was_early=any(one.code == "early" for one in committed.others.values()))
        self._observer.committed(batch, committed)
        for index, planned in enumerate(batch):
            self._settle_one(lease, planned, committed.others.get(index))

    def _settle_one(self, lease: Lease, planned: Planned, other: PlanResult | None) -> None:
        schedule_id = planned.plan.schedule_id
        if other is None or other.code in {"ok", "already", "early", "held"}:
            self._troubles.forget(schedule_id)
        if other is None:
            self._ahead.go_on(planned)
            if planned.plan.due is None:
                self._definitions.forget(schedule_id)
        elif other.code == "error":
            self._set_aside(lease, schedule_id, other.detail)
        elif other.code in {"moved", "stale", "gone", "paused"}:
            self._definitions.forget(schedule_id)

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


@dataclass(slots=True)
class _Batch:
    """Plans for one script, how many decisions they hold, and how many of these enqueue something late."""

    plans: list[Planned] = field(default_factory=list)
    fires: int = 0
    late: int = 0

    def add(self, planned: Planned) -> None:
        self.plans.append(planned)
        self.fires += len(planned.plan.decisions)
        self.late += _catch_up_fires(planned)

    def is_full(self, allowed: int) -> bool:
        return len(self.plans) == BATCH or self.fires >= FIRES_AT_ONCE or (self.late > 0 and self.late >= allowed)


def _catch_up_fires(planned: Planned) -> int:
    return sum(1 for decision in planned.plan.decisions if isinstance(decision, Fire) and decision.kind == "catchup")
