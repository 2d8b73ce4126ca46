"""A store in memory: the rules of `commit.lua` in Python, for simulation and for tests of apps.

The contract suite holds it equal to the store in Redis, case by case. It belongs to one thread. Jobs are only
recorded; whoever owns the store says when one ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from scheduler.planner import Against, Fire, due_time, first_cursor
from scheduler.ports import (
    LATE_MS,
    Code,
    Committed,
    DueBatch,
    DueRow,
    Lease,
    LeaseState,
    LedgerEntry,
    Planned,
    PlanResult,
    Released,
    Renewal,
    Status,
)
from scheduler.schedule import Schedule
from shared.clock import Clock

LIVE = frozenset({"queued", "started", "scheduled", "deferred"})
HOLD_MS = 1000


@dataclass(slots=True)
class Entry:
    """One stored schedule."""

    schedule: Schedule
    cursor: int
    revision: int = 1
    status: Status = "active"
    next: int | None = None
    due: int | None = None
    fired: int = 0
    last: int | None = None
    error: str = ""
    note: str = ""
    failures: int = 0
    waiting: Fire | None = None
    outstanding: dict[str, int] = field(default_factory=dict)


class MemoryStore:
    """Timetable, lease, queues and ledger in one process."""

    def __init__(self, clock: Clock) -> None:
        self.entries: dict[str, Entry] = {}
        self.jobs: dict[str, str] = {}
        self.queues: dict[str, list[str]] = {}
        self.ledger: list[LedgerEntry] = []
        self.stopping: set[str] = set()
        self.lease = LeaseState(owner="", term="", counter="")
        self._clock = clock
        self._fired: set[tuple[str, int]] = set()
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

    def record(self, entry: Entry, decision: Against) -> None:
        """Write a range that was decided against into the ledger."""
        self._record(entry, decision, decision.until, decision.count, decision.outcome, decision.reason)

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
        if entry and self._holds(lease):
            entry.error, entry.due = error, until
            heapq.heappush(self._heap, (until, schedule_id))

    def release_waiting(self, lease: Lease) -> Sequence[Released]:
        if not self._holds(lease):
            return []
        waiting = [entry for entry in self.entries.values() if entry.waiting and entry.status != "paused"]
        return [released for entry in waiting if (released := self._release(entry))]

    def commit(self, lease: Lease, plans: Sequence[Planned]) -> Committed | None:
        if not self._holds(lease):
            return None
        results = [self._commit_one(planned) for planned in plans]
        return Committed(now=self._clock.now_ms(), head=self.head(), results=results)

    # The lease.

    def read(self) -> LeaseState:
        return self.lease

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        if seen != self.lease and self.lease.owner:
            return None
        term = str(int(self.lease.term or 0) + 1)
        self.lease = LeaseState(owner=owner, term=term, counter="0")
        return Lease(owner=owner, term=term)

    def renew(self, lease: Lease) -> Renewal | None:
        if not self._holds(lease):
            return None
        counter = str(int(self.lease.counter) + 1)
        self.lease = LeaseState(owner=lease.owner, term=lease.term, counter=counter)
        return Renewal(now=self._clock.now_ms(), head=self.head())

    def release(self, lease: Lease) -> None:
        if self._holds(lease):
            self.lease = LeaseState(owner="", term=lease.term, counter=self.lease.counter)

    # The commit, rule by rule as in commit.lua.

    def _holds(self, lease: Lease) -> bool:
        return (lease.owner, lease.term) == (self.lease.owner, self.lease.term)

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
        self._release(entry)
        for index, decision in enumerate(plan.decisions):
            if _is_spent(entry):
                break
            outcome = self._settle(entry, decision)
            if outcome[0] == "held":
                return self._hold(entry, cursor, settled)
            cursor = decision.until if isinstance(decision, Against) else decision.nominal
            if isinstance(decision, Fire) and outcome[0] != "enqueued":
                settled[index] = outcome
        entry.cursor = cursor if _is_spent(entry) else plan.cursor
        entry.error = ""
        self.index(entry, None if _is_spent(entry) else plan.next)
        return PlanResult(code="ok", settled=settled)

    def _hold(self, entry: Entry, cursor: int, settled: dict[int, tuple[str, str]]) -> PlanResult:
        entry.cursor, entry.error = cursor, "held: its queue is full"
        entry.due = self._clock.now_ms() + HOLD_MS
        heapq.heappush(self._heap, (entry.due, entry.schedule.id))
        return PlanResult(code="held", settled=settled)

    def _settle(self, entry: Entry, decision: Fire | Against) -> tuple[str, str]:
        if isinstance(decision, Against):
            self.record(entry, decision)
            return decision.outcome, decision.reason
        outcome, reason = self._when_full(entry, self._enqueue(entry, decision))
        if outcome == "waiting":
            self._supersede(entry, decision)
        elif outcome != "held":
            self._record(entry, decision, decision.nominal, 1, outcome, reason)
        return outcome, reason

    def _when_full(self, entry: Entry, outcome: tuple[str, str]) -> tuple[str, str]:
        if outcome[0] != "full":
            return outcome
        return ("held", "") if entry.schedule.policy.on_full == "hold" else ("skipped", "queue_full")

    def _enqueue(self, entry: Entry, fire: Fire) -> tuple[str, str]:
        schedule, policy = entry.schedule, entry.schedule.policy
        if (schedule.id, fire.nominal) in self._fired or fire.job_id in self.jobs:
            return "deduplicated", ""
        is_taken = bool(policy.instances) and len(self._live(entry)) >= policy.instances
        if is_taken and policy.overlap == "buffer":
            return "waiting", ""
        if is_taken and policy.overlap != "replace":
            return "skipped", "overlap"
        if policy.queue_depth and len(self.queues.get(schedule.options.queue, ())) >= policy.queue_depth:
            return "full", ""
        if is_taken:
            self._replace(entry)
        self._push_fire(entry, fire)
        return "enqueued", ""

    def _push_fire(self, entry: Entry, fire: Fire) -> None:
        self._fired.add((entry.schedule.id, fire.nominal))
        self.jobs[fire.job_id] = "queued"
        self._push(entry.schedule, fire.job_id)
        if entry.schedule.policy.instances:
            entry.outstanding[fire.job_id] = fire.nominal
        entry.fired += 1
        entry.last = fire.nominal

    def _live(self, entry: Entry) -> dict[str, int]:
        """The jobs of a schedule that RQ still has; the others are forgotten."""
        entry.outstanding = {
            job_id: nominal for job_id, nominal in entry.outstanding.items() if self.jobs.get(job_id) in LIVE
        }
        return entry.outstanding

    def _replace(self, entry: Entry) -> None:
        """What has not begun is canceled, what runs is to be stopped."""
        for job_id in list(self._live(entry)):
            if self.jobs[job_id] in {"started", "deferred"}:
                self.stopping.add(job_id)
            else:
                self.jobs[job_id] = "canceled"
                del entry.outstanding[job_id]

    def _supersede(self, entry: Entry, fire: Fire) -> None:
        """Let a fire wait; an older one that waited goes into it."""
        if entry.waiting:
            older = replace(entry.waiting, job_id=fire.job_id)
            self._record(entry, older, older.nominal, 1, "coalesced", "buffer")
        entry.waiting = fire

    def _release(self, entry: Entry) -> Released | None:
        """Send a waiting fire on its way when it may go: at once, or as missed once it is too old."""
        fire = entry.waiting
        if fire is None:
            return None
        outcome, reason = "missed", "window"
        if self._clock.now_ms() - fire.due <= entry.schedule.policy.catchup_window:
            outcome, reason = self._when_full(entry, self._enqueue(entry, fire))
        if outcome in {"waiting", "held"}:
            return None
        self._record(entry, fire, fire.nominal, 1, outcome, reason)
        entry.waiting = None
        return Released(schedule=entry.schedule.id, nominal=fire.nominal, outcome=outcome, reason=reason)

    def _push(self, schedule: Schedule, job_id: str) -> None:
        queue = self.queues.setdefault(schedule.options.queue, [])
        queue.insert(0 if schedule.options.at_front else len(queue), job_id)

    def _record(
        self, entry: Entry, decision: Fire | Against, until: int, count: int, outcome: str, reason: str
    ) -> None:
        self.ledger.append(
            LedgerEntry(
                schedule=entry.schedule.id,
                nominal=decision.nominal,
                until=until,
                count=count,
                decided=self._clock.now_ms(),
                outcome=outcome,
                reason=reason,
                kind=decision.kind,
                job_id=decision.job_id,
                due=decision.due,
            )
        )


def _is_spent(entry: Entry) -> bool:
    limit = entry.schedule.policy.limit
    return bool(limit) and entry.fired >= limit
