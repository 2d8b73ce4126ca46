"""An account of a run that owes nothing to the store: who may commit, what is at rest, which triggers hold from when.

It is told of each step as the store carries it out, and notes at once what must never happen. What can only be seen
from the whole is left to `checker`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.leader import LEASE_SECONDS
from scheduler.memory import MemoryStore
from scheduler.memoryfiring import LIVE, Entry
from scheduler.ports import Committed, Lease, LedgerEntry, Planned, PlanResult, Renewal
from scheduler.triggers import Trigger
from tests.simulation.world import World

OWN = frozenset({"scheduled", "catchup"})


@dataclass(slots=True, kw_only=True)
class Span:
    """A trigger in force: it answers for the nominal times in (since, until], by the ledger from `first` to `last`.

    A fire that waited (overlap buffer) when the trigger was changed is `carried` into the next span.
    """

    trigger: Trigger
    since: int
    first: int
    carried: int | None = None
    until: int | None = None
    last: int | None = None
    open: int | None = None


@dataclass(slots=True, kw_only=True)
class Life:
    """A schedule from being added to being removed. `fired` is its counter at the end."""

    id: str
    revision: int
    spans: list[Span]
    fired: int | None = None
    jobs: list[str] = field(default_factory=list)


class Account:
    """What is true by right. `violations` are sentences; the first one ends a run."""

    def __init__(self, world: World, store: MemoryStore) -> None:
        self.violations: list[str] = []
        self.lives: list[Life] = []
        self.living: dict[str, Life] = {}
        self.at_rest: set[str] = set()
        self._world = world
        self._store = store
        self._in_force = Lease(owner="", term="0")
        self._renewed_at = 0
        self._cursors: dict[str, int] = {}
        self._owners: dict[str, Life] = {}
        self.waited: set[tuple[str, int]] = set()

    # The lease.

    def claimed(self, who: str, lease: Lease | None) -> None:
        """A lease is taken: under a higher term, and not while it is renewed."""
        if lease is None:
            return
        self._world.say(who, "leads", f"under term {lease.term}")
        stood_still = self._world.now - self._renewed_at
        if self._in_force.owner and stood_still < LEASE_SECONDS * 1000:
            self.violations.append(f"the lease of {self._in_force.owner} was taken after {stood_still} ms")
        if int(lease.term) <= int(self._in_force.term):
            self.violations.append(f"term {lease.term} after term {self._in_force.term}")
        self._in_force, self._renewed_at = lease, self._world.now

    def renewed(self, lease: Lease, renewal: Renewal | None) -> None:
        if renewal and lease != self._in_force:
            self.violations.append(f"renewed by a fenced lease: {lease}, in force is {self._in_force}")
        if renewal:
            self._renewed_at = self._world.now

    def released(self, lease: Lease) -> None:
        if lease == self._in_force:
            self._in_force = Lease(owner="", term=lease.term)

    # What beats do.

    def length(self) -> int:
        """How long the ledger is, to be handed back to `committed` or `sent_on`."""
        return len(self._store.firing.ledger)

    def committed(self, who: str, lease: Lease, plans: Sequence[Planned], reply: Committed | None, before: int) -> None:
        """A commit was carried out, or refused."""
        self._judge_commit(who, lease, reply, before)
        for planned, result in ((planned, reply.result(i)) for i, planned in enumerate(plans) if reply):
            self._judge_result(planned, result)

    def _judge_commit(self, who: str, lease: Lease, reply: Committed | None, before: int) -> None:
        if reply is None:
            self._world.say(who, "fenced", f"term {lease.term}")
        if lease != self._in_force and reply is not None:
            self.violations.append(f"accepted from a fenced lease: {lease}, in force is {self._in_force}")
        self._judge_entries(lease, before)

    def sent_on(self, lease: Lease, before: int) -> None:
        """Waiting fires were sent on."""
        self._judge_entries(lease, before)

    def _judge_entries(self, lease: Lease, before: int) -> None:
        fresh = self._store.firing.ledger[before:]
        if fresh and lease != self._in_force:
            self.violations.append(f"written by a fenced lease: {fresh[0]}")
        for entry in fresh:
            self._judge_entry(entry)

    def _judge_entry(self, entry: LedgerEntry) -> None:
        if entry.decided < entry.due and (entry.schedule, entry.nominal) not in self.waited:
            self.violations.append(f"early by {entry.due - entry.decided} ms: {entry}")
        if entry.schedule in self.at_rest:
            self.violations.append(f"decided at rest: {entry}")
        if entry.outcome == "enqueued":
            self._judge_bounds(entry)

    def _judge_bounds(self, entry: LedgerEntry) -> None:
        """Jobs of a schedule without a bound are not counted, by the product neither."""
        life, policy = self.living[entry.schedule], self._store.entries[entry.schedule].schedule.policy
        self._own(life, entry.job_id or "", is_counted=policy.instances > 0)
        if policy.limit and self._store.entries[entry.schedule].fired > policy.limit:
            self.violations.append(f"fired more often than {policy.limit} times: {entry}")
        if policy.instances and policy.overlap != "replace" and len(life.jobs) > policy.instances:
            self.violations.append(f"{len(life.jobs)} at once where {policy.instances} may be: {entry}")

    def _own(self, life: Life, job_id: str, *, is_counted: bool) -> None:
        self._owners[job_id] = life
        jobs = [*life.jobs, job_id] if is_counted else life.jobs
        life.jobs = [one for one in jobs if self._store.firing.jobs.get(one) in LIVE]

    def _judge_result(self, planned: Planned, result: PlanResult) -> None:
        name = planned.plan.schedule_id
        if result.code == "paused":
            self.at_rest.add(name)
        fires = [planned.plan.decisions[index] for index, settled in result.settled.items() if settled[0] == "waiting"]
        self.waited |= {(name, fire.nominal) for fire in fires}
        if result.code in {"ok", "held"}:
            self._judge_applied(planned, self._store.entries[name])

    def _judge_applied(self, planned: Planned, entry: Entry) -> None:
        name = planned.plan.schedule_id
        if name not in self.living or planned.revision != self.living[name].revision:
            self.violations.append(f"an outdated definition of {name} was committed")
        if entry.cursor < self._cursors.get(name, entry.cursor):
            self.violations.append(f"the cursor of {name} went back to {entry.cursor}")
        self._cursors[name] = entry.cursor

    # What people do.

    def added(self, entry: Entry) -> None:
        span = Span(trigger=entry.schedule.trigger, since=entry.cursor, first=self.length())
        life = Life(id=entry.schedule.id, revision=entry.revision, spans=[span])
        self.lives.append(life)
        self.living[life.id] = life

    def redefined(self, entry: Entry) -> None:
        """Anything but the trigger was changed."""
        self.living[entry.schedule.id].revision = entry.revision

    def retriggered(self, entry: Entry, until: int) -> None:
        """The trigger was changed: the old one answered up to `until`; the new one does from the cursor on."""
        self.redefined(entry)
        waiting = entry.waiting.nominal if entry.waiting else None
        life = self.living[entry.schedule.id]
        self._end(life.spans[-1], until, waiting)
        life.spans.append(
            Span(trigger=entry.schedule.trigger, since=entry.cursor, first=self.length(), carried=waiting)
        )

    def removed(self, entry: Entry) -> None:
        """A schedule is gone, or the run is over."""
        life = self.living.pop(entry.schedule.id)
        life.fired = entry.fired
        self._end(life.spans[-1], entry.cursor, entry.waiting.nominal if entry.waiting else None)
        self.at_rest.discard(life.id)
        self._cursors.pop(life.id, None)

    def enqueued_by_hand(self, entry: Entry, job_id: str) -> None:
        self._own(self.living[entry.schedule.id], job_id, is_counted=entry.schedule.policy.instances > 0)

    def owner(self, job_id: str) -> Life | None:
        """Whose job it is."""
        return self._owners.get(job_id)

    def _end(self, span: Span, until: int, waiting: int | None) -> None:
        span.until, span.last, span.open = until, self.length(), waiting
