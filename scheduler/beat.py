"""The beat: one loop that asks whether it leads, decides what is due, and waits until the next due time or a change.

Everything that decides is elsewhere and pure; this module has the side effects, in one order: renew the lease, read
what is due, plan, commit, wait. Nothing is written but through the commit, so the loop may be cut off at any
instruction: what was not committed is planned again, by this beat or by another.

A schedule that can't be read, planned or committed is set aside by name, with its error, for a while that doubles up to
a minute; the others go on. Redis in trouble ends no beat: it backs off, says so once, and goes on by itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from scheduler.bell import Bell
from scheduler.definitions import Definitions
from scheduler.failpoint import Point, nothing
from scheduler.leader import RENEW_SECONDS, Leader
from scheduler.pacing import Allowance, BackOff, Troubles
from scheduler.planner import Fire, plan
from scheduler.ports import DueBatch, DueRow, Lease, Planned, PlanResult, Released, Timetable
from scheduler.schedule import Schedule
from shared.clock import Clock
from shared.errors import StoreError

log = logging.getLogger("rqbeat.beat")

BATCH = 500
FIRES_AT_ONCE = 1000
LOOK = 0
"""A head in the past: what is due is not known, so look."""


class Observer(Protocol):
    """Told of everything that was decided, and of trouble."""

    def committed(self, planned: Planned, result: PlanResult, now: int) -> None: ...
    def set_aside(self, schedule_id: str, error: str) -> None: ...
    def released(self, released: Released) -> None: ...
    def state(self, facts: dict[str, str | int]) -> None: ...


class Beat:
    """One beat of possibly several on one Redis. `run` blocks; `stop` may be called from anywhere."""

    def __init__(
        self,
        *,
        timetable: Timetable,
        leader: Leader,
        clock: Clock,
        bell: Bell,
        observer: Observer,
        chores: Sequence[Callable[[], object]] = (),
        on_trouble: Callable[[], object] = lambda: None,
        reached: Callable[[Point], None] = nothing,
    ) -> None:
        """`chores` are run once a second by the beat that leads, `on_trouble` before Redis is asked again.

        After a failover, a connection that still works may lead to a server that takes no writes any more. `reached` is
        told the points that the loop passes.
        """
        self._timetable = timetable
        self._leader = leader
        self._clock = clock
        self._bell = bell
        self._observer = observer
        self._chores = deque(chores)
        self._has_chores = False
        self._on_trouble = on_trouble
        self._reached = reached
        self._definitions = Definitions(timetable)
        self._troubles = Troubles()
        self._back_off = BackOff()
        self._allowance = Allowance(clock)
        self._head: int | None = LOOK
        self._has_waiting = False
        self._is_stopping = False

    def stop(self) -> None:
        """Ask the loop to end after the commit in hand. Takes no lock: a signal handler may call it."""
        self._is_stopping = True
        self._bell.ring()

    def run(self) -> None:
        """Decide fires until stopped; then give the lease back."""
        while not self._is_stopping:
            seconds = self._guarded_turn()
            self._reached("waiting")
            if self._bell.wait(seconds):
                self._head = LOOK
                self._leader.look_soon()
        self._resign()

    def once(self) -> bool:
        """Decide what is due now, and give the lease back. False when another beat leads. Raises StoreError."""
        self.turn()
        is_leader = self._leader.lease is not None
        while self._leader.lease and self._is_due() and not self._is_stopping:
            self.turn()
        self._resign()
        return is_leader

    def turn(self) -> float:
        """One turn: lease, chores, what is due. Returns the seconds to wait. Raises StoreError."""
        if self._leader.seconds_left() <= 0:
            self._look_at_lease()
        lease = self._leader.lease
        if lease is None:
            self._head = LOOK
            return self._leader.seconds_left()
        if self._is_due():
            self._tick(lease)
        if self._has_waiting:
            self._release(lease)
        if self._has_chores:
            self._do_chores()
        return min(self._leader.seconds_left(), self._seconds_to_head())

    def _guarded_turn(self) -> float:
        """A turn that survives what Redis may do."""
        try:
            seconds = self.turn()
        except StoreError as error:
            self._head = LOOK
            self._on_trouble()
            self._observer.state({"state": "waiting", "error": str(error)})
            return self._back_off.next()
        self._back_off.reset()
        return seconds

    def _look_at_lease(self) -> None:
        self._reached("before-renew")
        renewal = self._leader.turn()
        self._reached("after-renew")
        if renewal:
            self._head = LOOK if self._head == LOOK else renewal.head
            self._has_waiting = renewal.waiting > 0
        self._observer.state({"state": "leader" if self._leader.lease else "standby", "error": ""})
        self._has_chores = bool(self._chores)

    def _do_chores(self) -> None:
        """Those that fit in before the lease is to be renewed, at least one; the next time, those that did not.

        After the fires, and never all at any price: on a slow line the chores alone would outlast the lease.
        """
        self._has_chores = False
        for _ in range(len(self._chores)):
            self._chores.rotate(-1)
            self._do_chore(self._chores[-1])
            if self._leader.seconds_left() <= 0:
                return

    def _do_chore(self, chore: Callable[[], object]) -> None:
        """A chore that fails for any reason but Redis' must not stop the fires."""
        try:
            chore()
        except StoreError:
            raise
        except Exception:
            log.exception("a chore failed")

    def _is_due(self) -> bool:
        return self._head is not None and self._head <= self._clock.now_ms()

    def _seconds_to_head(self) -> float:
        if self._head is None:
            return RENEW_SECONDS
        return max(0.0, (self._head - self._clock.now_ms()) / 1000)

    def _tick(self, lease: Lease) -> None:
        """Decide one batch of what is due."""
        now = self._clock.now_ms()
        batch = self._timetable.due(now, BATCH, self._allowance.left())
        self._reached("after-due")
        self._has_waiting = batch.waiting > 0
        planned = self._bounded(self._plan_all(lease, batch.rows, batch.now)) if batch.rows else []
        if not planned:
            self._head = LOOK if batch.rows else self._next_look(batch, now)
            return
        self._reached("after-plan")
        self._allowance.take(sum(_catch_up_fires(one) for one in planned))
        self._commit(lease, planned)

    def _bounded(self, plans: Iterator[Planned]) -> list[Planned]:
        """As many plans as one script may carry out without holding up Redis; the others are due at the next turn."""
        taken: list[Planned] = []
        fires, late, allowed = 0, 0, self._allowance.left()
        for planned in plans:
            taken.append(planned)
            fires += len(planned.plan.decisions)
            late += _catch_up_fires(planned)
            if fires >= FIRES_AT_ONCE or (late and late >= allowed):
                break
        return taken

    def _commit(self, lease: Lease, planned: Sequence[Planned]) -> None:
        self._reached("before-commit")
        committed = self._timetable.commit(lease, planned)
        self._reached("after-commit")
        if committed is None:
            log.warning("fenced: another beat leads now; nothing was written")
            self._leader.lost()
            return
        self._head = committed.head
        for one, result in zip(planned, committed.results, strict=True):
            self._settle(lease, one, result, committed.now)

    def _next_look(self, batch: DueBatch, now: int) -> int | None:
        """When there is something to decide next, by this host's clock, after a look that found nothing.

        Where Redis' clock is behind, a fire waits for it; what is late and over the allowance, for the next second.
        """
        if batch.head is None:
            return None
        if batch.head <= batch.now:
            return now + round(self._allowance.seconds_to_next() * 1000)
        return batch.head + now - batch.now

    def _release(self, lease: Lease) -> None:
        """Send on waiting fires whose predecessor has ended; looked at once a second, and when a run ends."""
        self._has_waiting = False
        for released in self._timetable.release_waiting(lease):
            self._observer.released(released)

    def _plan_all(self, lease: Lease, rows: Sequence[DueRow], now: int) -> Iterator[Planned]:
        found = self._definitions.of([row for row in rows if not row.error])
        self._reached("after-load")
        for row in rows:
            definition = found.get(row.id) or StoreError(row.error)
            if isinstance(definition, Exception):
                self._set_aside(lease, row.id, f"can't be read: {definition}")
            elif row.status != "active":
                self._set_aside(lease, row.id, f"is {row.status}, yet in the timetable")
            else:
                yield from self._plan_one(lease, row, *definition, now)

    def _plan_one(self, lease: Lease, row: DueRow, revision: int, schedule: Schedule, now: int) -> Iterator[Planned]:
        try:
            yield Planned(schedule=schedule, revision=revision, plan=plan(schedule, row.cursor, now))
        except Exception as error:  # noqa: BLE001 - one schedule's fault, of whatever kind, must not stop the others
            self._set_aside(lease, row.id, f"can't be planned: {type(error).__name__}: {error}")

    def _settle(self, lease: Lease, planned: Planned, result: PlanResult, now: int) -> None:
        schedule_id = planned.plan.schedule_id
        if result.code == "error":
            self._set_aside(lease, schedule_id, result.detail)
        elif result.code in {"moved", "stale", "gone", "paused"}:
            self._definitions.forget(schedule_id)
        else:
            self._troubles.forget(schedule_id)
        self._observer.committed(planned, result, now)

    def _set_aside(self, lease: Lease, schedule_id: str, error: str) -> None:
        self._definitions.forget(schedule_id)
        until = self._clock.now_ms() + self._troubles.next_ms(schedule_id)
        self._timetable.set_aside(lease, schedule_id, until, error)
        self._observer.set_aside(schedule_id, error)
        self._head = LOOK

    def _resign(self) -> None:
        try:
            self._leader.resign()
        except StoreError as error:
            log.warning("the lease could not be given back (%s): a standby waits for it to stand still", error)


def _catch_up_fires(planned: Planned) -> int:
    return sum(1 for decision in planned.plan.decisions if isinstance(decision, Fire) and decision.kind == "catchup")
