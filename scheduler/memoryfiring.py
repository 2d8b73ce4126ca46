"""How one fire is enqueued, in memory: the rules of `firing.lua` in Python."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from scheduler.planner import Against, Fire
from scheduler.ports import LedgerEntry, Released, Status
from scheduler.schedule import Schedule
from shared.clock import Clock

LIVE = frozenset({"queued", "started", "scheduled", "deferred"})


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

    @property
    def is_spent(self) -> bool:
        """Whether it has fired as often as its limit lets it."""
        limit = self.schedule.policy.limit
        return bool(limit) and self.fired >= limit


class MemoryFiring:
    """Jobs, queues and the ledger, and what may be added to them. Jobs are by id, with RQ's word for their state."""

    def __init__(self, clock: Clock) -> None:
        self.jobs: dict[str, str] = {}
        self.queues: dict[str, list[str]] = {}
        self.ledger: list[LedgerEntry] = []
        self.stopping: set[str] = set()
        self._clock = clock
        self._fired: set[tuple[str, int]] = set()

    def record_range(self, entry: Entry, decision: Against) -> None:
        """Write a range that was decided against into the ledger."""
        self._record(entry, decision, decision.until, decision.count, decision.outcome, decision.reason)

    def settle(self, entry: Entry, decision: Fire | Against) -> tuple[str, str]:
        """Carry out one decision of a plan: outcome and reason. A fire may come to `waiting`, or to `held`."""
        if isinstance(decision, Against):
            self.record_range(entry, decision)
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
        if is_taken:
            self._replace(entry)
        if policy.queue_depth and len(self.queues.get(schedule.options.queue, ())) >= policy.queue_depth:
            return "full", ""
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
                queue = self.queues.get(entry.schedule.options.queue, [])
                if job_id in queue:
                    queue.remove(job_id)
                del entry.outstanding[job_id]

    def _supersede(self, entry: Entry, fire: Fire) -> None:
        """Let a fire wait; an older one that waited goes into it."""
        if entry.waiting:
            older = replace(entry.waiting, job_id=fire.job_id)
            self._record(entry, older, older.nominal, 1, "coalesced", "buffer")
        entry.waiting = fire

    def release(self, entry: Entry) -> Released | None:
        """Send a waiting fire on its way when it may go."""
        fire = entry.waiting
        if fire is None:
            return None
        outcome, reason = self._settle_waiting(entry, fire)
        if outcome in {"waiting", "held"}:
            return None
        self._record(entry, fire, fire.nominal, 1, outcome, reason)
        entry.waiting = None
        return Released(schedule=entry.schedule.id, nominal=fire.nominal, outcome=outcome, reason=reason)

    def _settle_waiting(self, entry: Entry, fire: Fire) -> tuple[str, str]:
        """It is missed where it is too old, or where the limit was lowered meanwhile to what was fired."""
        if self._clock.now_ms() - fire.due > entry.schedule.policy.catchup_window:
            return "missed", "window"
        if entry.is_spent:
            return "missed", "limit"
        return self._when_full(entry, self._enqueue(entry, fire))

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
