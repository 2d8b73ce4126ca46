"""DELIBERATELY WRONG designs: each leaves out one thing that the right store or planner does. The simulation has to
find every one of them out; nothing here is used for anything else.

    key-first     the dedupe key is set, then the job pushed: a crash in between loses the fire
    push-first    the job is pushed, then the cursor moved: a crash in between fires it again
    cursor-edge   the planner counts the cursor's own nominal time as undecided: >= where > is meant
    due-edge      a fire that is due in the next millisecond counts as due: one ms early, and the commit lets it
    no-fence      the lease is believed for ever: who held it once may renew it and commit
    no-compare    the lease is claimed by whoever asks, without a look at whether it was renewed meanwhile
    lease-only    nothing but the lease guards a commit: neither cursor nor revision
    no-revision   a plan from an older definition is carried out
    no-status     a plan made before a pause is carried out during it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from scheduler.memory import MemoryLease, MemoryStore
from scheduler.memoryfiring import Entry
from scheduler.planner import Fire, Plan, plan
from scheduler.ports import Code, Lease, LeaseState, Planned, PlanResult
from scheduler.schedule import Schedule
from shared.clock import Clock
from tests.simulation.run import Design


class InSteps(MemoryStore):
    """A store whose commit is several steps. In the gap between two of them a process may crash."""

    gap: Callable[[], None] = staticmethod(lambda: None)


class KeyFirst(InSteps):
    def _apply(self, entry: Entry, planned: Planned) -> PlanResult:
        keys = {(entry.schedule.id, one.nominal) for one in planned.plan.decisions if isinstance(one, Fire)}
        fresh = keys - self.firing._fired
        self.firing._fired |= fresh
        self.gap()
        self.firing._fired -= fresh  # what follows sets them itself, and pushes
        return super()._apply(entry, planned)


class PushFirst(InSteps):
    def _apply(self, entry: Entry, planned: Planned) -> PlanResult:
        cursor, following = entry.cursor, entry.next
        result = super()._apply(entry, planned)
        moved, due, status = (entry.cursor, entry.next), entry.due, entry.status
        entry.cursor, entry.status = cursor, "active"
        self.index(entry, following)
        self.gap()
        (entry.cursor, entry.next), entry.due, entry.status = moved, due, status
        return result


class Credulous(MemoryLease):
    def is_held_by(self, lease: Lease) -> bool:
        return bool(lease.owner)


class NoFence(MemoryStore):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.lease = Credulous(clock, self.head)


class Uncompared(MemoryLease):
    def claim(self, owner: str, _seen: LeaseState) -> Lease | None:
        return super().claim(owner, self.read())


class NoCompare(MemoryStore):
    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self.lease = Uncompared(clock, self.head)


class NoRevision(MemoryStore):
    def _judge(self, entry: Entry | None, planned: Planned) -> Code:
        return super()._judge(entry, replace(planned, revision=entry.revision) if entry else planned)


class LeaseOnly(NoRevision):
    def _judge(self, entry: Entry | None, planned: Planned) -> Code:
        base = entry.cursor if entry else planned.plan.base
        return super()._judge(entry, replace(planned, plan=replace(planned.plan, base=base)))


class NoStatus(MemoryStore):
    def _judge(self, entry: Entry | None, planned: Planned) -> Code:
        return super()._judge(replace(entry, status="active") if entry else None, planned)


class NeverEarly(MemoryStore):
    def _judge(self, entry: Entry | None, planned: Planned) -> Code:
        code = super()._judge(entry, planned)
        return "ok" if code == "early" else code


def from_cursor_on(schedule: Schedule, cursor: int, now: int) -> Plan:
    return replace(plan(schedule, cursor - 1, now), base=cursor)


def a_moment_early(schedule: Schedule, cursor: int, now: int) -> Plan:
    return plan(schedule, cursor, now + 1)


WRONG: Mapping[str, Design] = {
    "key-first": Design(store=KeyFirst),
    "push-first": Design(store=PushFirst),
    "cursor-edge": Design(plan=from_cursor_on),
    "due-edge": Design(store=NeverEarly, plan=a_moment_early),
    "no-fence": Design(store=NoFence),
    "no-compare": Design(store=NoCompare),
    "lease-only": Design(store=LeaseOnly),
    "no-revision": Design(store=NoRevision),
    "no-status": Design(store=NoStatus),
}
