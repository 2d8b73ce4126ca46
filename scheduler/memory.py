"""A store in memory: the rules of `commit.lua` in Python, for simulation and for tests of apps.

The contract suite holds it equal to the store in Redis, case by case. It belongs to one thread. Jobs are only
recorded; whoever owns the store says when one ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from scheduler.memoryfiring import Entry, MemoryFiring
from scheduler.planner import Against, Fire, due_time, first_cursor
from scheduler.ports import (
    LATE_MS,
    Code,
    Committed,
    DueBatch,
    DueRow,
    Lease,
    LeaseState,
    Planned,
    PlanResult,
    Released,
    Renewal,
)
from scheduler.schedule import Schedule
from shared.clock import Clock

HOLD_MS = 1000


class MemoryLease:
    """The lease, as `lease_*.lua` keep it. `head` tells the earliest due time for a renewal."""

    def __init__(self, clock: Clock, head: Callable[[], int | None]) -> None:
        self._clock = clock
        self._head = head
        self._state = LeaseState(owner="", term="", counter="")

    def read(self) -> LeaseState:
        return replace(self._state, now=self._clock.now_ms())

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        if seen != self._state and self._state.owner:
            return None
        term = str(int(self._state.term or 0) + 1)
        self._state = LeaseState(owner=owner, term=term, counter="0")
        return Lease(owner=owner, term=term)

    def renew(self, lease: Lease) -> Renewal | None:
        if not self.is_held_by(lease):
            return None
        self._state = replace(self._state, counter=str(int(self._state.counter) + 1))
        return Renewal(now=self._clock.now_ms(), head=self._head())

    def release(self, lease: Lease) -> None:
        if self.is_held_by(lease):
            self._state = replace(self._state, owner="")

    def is_held_by(self, lease: Lease) -> bool:
        """Whether this lease is the one in force."""
        return (lease.owner, lease.term) == (self._state.owner, self._state.term)


class MemoryStore:
    """The timetable, with a lease, and queues and ledger in `firing`."""

    def __init__(self, clock: Clock) -> None:
        self.entries: dict[str, Entry] = {}
        self.firing = MemoryFiring(clock)
        self.lease = MemoryLease(clock, self.head)
        self._clock = clock
        self._heap: list[tuple[int, str]] = []

    # The timetable.

    def add(self, schedule: Schedule) -> Entry:
        """Store a new schedule: it starts from now."""
        entry = self.entries[schedule.id] = Entry(schedule, first_cursor(schedule, self._clock.now_ms()))
        self.index(entry, schedule.trigger.next_ms(entry.cursor))
        return entry

    def index(self, entry: Entry, following: int | None) -> None:
        """Put a schedule where its next fire belongs; without one it is completed."""
        entry.next = following
        entry.due = None if following is None else due_time(entry.schedule, following)
        if entry.due is None:
            entry.status = "completed"
        else:
            heapq.heappush(self._heap, (entry.due, entry.schedule.id))

    def head(self) -> int | None:
        """The earliest due time of an active schedule."""
        while self._heap:
            due, schedule_id = self._heap[0]
            entry = self.entries.get(schedule_id)
            if entry and entry.status == "active" and entry.due == due:
                return due
            heapq.heappop(self._heap)
        return None

    def due(self, now: int, most: int, most_late: int) -> DueBatch:
        ready = min(now, self._clock.now_ms())
        rows = self._ready(ready)
        late = [row for row in rows if row.due < ready - LATE_MS]
        on_time = rows[len(late) :][:most]
        chosen = [*on_time, *late[: min(most_late, most - len(on_time))]]
        waiting = sum(1 for entry in self.entries.values() if entry.waiting)
        return DueBatch(now=ready, head=self.head(), waiting=waiting, rows=chosen)

    def coming(self, until: int, skip: int, most: int) -> Sequence[DueRow]:
        return self._ready(until)[skip : skip + most]

    def _ready(self, ready: int) -> list[DueRow]:
        """All that is due, the earliest first."""
        found: dict[str, DueRow] = {}
        while (head := self.head()) is not None and head <= ready:
            _, schedule_id = heapq.heappop(self._heap)
            found[schedule_id] = self._row(schedule_id)
        for row in found.values():
            heapq.heappush(self._heap, (row.due, row.id))
        return list(found.values())

    def load(self, ids: Sequence[str]) -> Mapping[str, tuple[int, Schedule] | Exception]:
        found = ((schedule_id, self.entries.get(schedule_id)) for schedule_id in ids)
        return {schedule_id: (entry.revision, entry.schedule) for schedule_id, entry in found if entry}

    def set_aside(self, lease: Lease, schedule_id: str, until: int, error: str) -> None:
        entry = self.entries.get(schedule_id)
        if entry and self.lease.is_held_by(lease):
            entry.error, entry.due = error, until
            heapq.heappush(self._heap, (until, schedule_id))

    def release_waiting(self, lease: Lease) -> Sequence[Released]:
        if not self.lease.is_held_by(lease):
            return []
        waiting = [
            entry for entry in self.entries.values() if entry.waiting and entry.status in {"active", "completed"}
        ]
        return [released for entry in waiting if (released := self.firing.release(entry))]

    def commits(
        self, lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        for plans in batches:
            yield plans, self.commit(lease, plans)

    def commit(self, lease: Lease, plans: Sequence[Planned]) -> Committed | None:
        """One batch alone."""
        if not self.lease.is_held_by(lease):
            return None
        results = [self._commit_one(planned) for planned in plans]
        others = {index: result for index, result in enumerate(results) if result.code != "ok" or result.settled}
        return Committed(now=self._clock.now_ms(), head=self.head(), others=others)

    # The commit, rule by rule as in commit.lua.

    def _row(self, schedule_id: str) -> DueRow:
        entry = self.entries[schedule_id]
        return DueRow(
            id=schedule_id,
            due=entry.due or 0,
            revision=entry.revision,
            status=entry.status,
            cursor=entry.cursor,
        )

    def _commit_one(self, planned: Planned) -> PlanResult:
        entry = self.entries.get(planned.plan.schedule_id)
        code = self._judge(entry, planned)
        if entry is not None and code == "paused":
            return self._pause(entry)
        if entry is None or code != "ok":
            return PlanResult(code=code, settled={})
        return self._apply(entry, planned)

    def _judge(self, entry: Entry | None, planned: Planned) -> Code:
        plan = planned.plan
        if entry is None or entry.status != "active":
            return "gone"
        if entry.revision != planned.revision:
            return "stale"
        if entry.cursor != plan.base:
            return "already" if entry.cursor >= plan.cursor else "moved"
        if max((decision.due for decision in plan.decisions), default=0) > self._clock.now_ms():
            return "early"
        pause_after = entry.schedule.policy.pause_after
        return "paused" if pause_after and plan.decisions and entry.failures >= pause_after else "ok"

    def _pause(self, entry: Entry) -> PlanResult:
        entry.status, entry.next = "paused", None
        entry.note = f"paused after {entry.schedule.policy.pause_after} failed runs in a row"
        return PlanResult(code="paused", detail=entry.note, settled={})

    def _apply(self, entry: Entry, planned: Planned) -> PlanResult:
        plan, cursor = planned.plan, planned.plan.base
        settled: dict[int, tuple[str, str]] = {}
        self.firing.release(entry)
        for index, decision in enumerate(plan.decisions):
            if entry.is_spent:
                break
            outcome = self.firing.settle(entry, decision)
            if outcome[0] == "held":
                return self._hold(entry, cursor, settled)
            cursor = decision.until if isinstance(decision, Against) else decision.nominal
            if isinstance(decision, Fire) and outcome[0] != "enqueued":
                settled[index] = outcome
        entry.cursor = cursor if entry.is_spent else plan.cursor
        entry.error = ""
        self.index(entry, None if entry.is_spent else plan.next)
        return PlanResult(code="ok", settled=settled)

    def _hold(self, entry: Entry, cursor: int, settled: dict[int, tuple[str, str]]) -> PlanResult:
        entry.cursor, entry.error = cursor, "held: its queue is full"
        entry.due = self._clock.now_ms() + HOLD_MS
        heapq.heappush(self._heap, (entry.due, entry.schedule.id))
        return PlanResult(code="held", settled=settled)
