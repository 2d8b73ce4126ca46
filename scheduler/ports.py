"""What the beat needs from outside, and the shapes that cross that border. Nothing here does anything.

Both the Redis store and the one in memory keep these promises; the contract suite runs against both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from scheduler.planner import Against, Fire, Plan
from scheduler.schedule import Schedule
from shared.instants import iso

Code = Literal["ok", "already", "moved", "held", "stale", "gone", "paused", "early", "error"]
Status = Literal["active", "paused", "completed", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """The right to commit: who holds it and under which term. Equality of both is the fence."""

    owner: str
    term: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseState:
    """The lease as it lies in the store. `owner` is "" when nobody holds it, all three when nobody ever did.

    `now` is the store's clock when it was read, ms; it is no part of the lease.
    """

    owner: str
    term: str
    counter: str
    now: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueRow:
    """A schedule whose due time has come, as the index has it. `error` is not "" when it can't be read."""

    id: str
    due: int
    revision: int
    status: str
    cursor: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBatch:
    """What is due by the caller's clock and the store's. `head` is the earliest due time of all, None for none.

    `waiting` says how many schedules have a fire that waits for an earlier job.
    """

    now: int
    head: int | None
    waiting: int = 0
    rows: Sequence[DueRow]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult:
    """What became of one plan. `settled` holds, by index into its decisions, fires not enqueued as planned."""

    code: Code
    detail: str = ""
    settled: Mapping[int, tuple[str, str]]


APPLIED = PlanResult(code="ok", settled={})
"""What became of a plan that was applied to the letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Committed:
    """A commit that went through. `others` holds, by index, what became of plans that were not applied to the letter.

    `head` is the earliest due time of all after it, None for none.
    """

    now: int
    head: int | None
    others: Mapping[int, PlanResult] = field(default_factory=dict)

    def result(self, index: int) -> PlanResult:
        """What became of one plan."""
        return self.others.get(index, APPLIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """A plan and the schedule, at the revision, that it was made from."""

    schedule: Schedule
    revision: int
    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Released:
    """What became of a fire that waited."""

    schedule: str
    nominal: int
    outcome: str
    reason: str


LATE_MS = 30_000
"""A due time so long ago is catch-up: what is on time goes before it."""


class Timetable(Protocol):
    """The store as the beat sees it. Every method is one or two blocking round trips and raises StoreError."""

    def due(self, now: int, most: int, most_late: int) -> DueBatch:
        """Due schedules, at most `most`: those on time first, then at most `most_late` of those that are late.

        Late is what was due more than `LATE_MS` ago.
        """
        ...

    def coming(self, until: int, skip: int, most: int) -> Sequence[DueRow]:
        """The first entries of the timetable but for `skip` of them: those due until then, at most `most`."""
        ...

    def load(self, ids: Sequence[str]) -> Mapping[str, tuple[int, Schedule] | Exception]:
        """Revision and definition of schedules; an exception for one that can't be read; absent ones are left out."""
        ...

    def commits(
        self, lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        """Make plans true, each in one step, and yield what came of it; None when fenced: the lease is another's.

        A batch is asked for while those before it are being committed. A plan that is sent twice has the effect of
        once. See `commit.lua`.
        """
        ...

    def release_waiting(self, lease: Lease) -> Sequence[Released]:
        """Send on the waiting fires that may go (overlap buffer). Nothing when fenced."""
        ...

    def set_aside(self, lease: Lease, schedule_id: str, until: int, error: str) -> None:
        """Look at a schedule again at `until` (ms), and show its error meanwhile."""
        ...


class LeaseStore(Protocol):
    """Where the lease lies."""

    def read(self) -> LeaseState:
        """The lease as it is now."""
        ...

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        """Take the lease if it is still as seen, under the next term; None when somebody was quicker."""
        ...

    def renew(self, lease: Lease) -> Renewal | None:
        """Move the lease's counter on; None when the lease is another's."""
        ...

    def release(self, lease: Lease) -> None:
        """Give the lease back, if it is still one's own, and wake the standbys."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The store's clock, the earliest due time and the number of waiting fires at a renewal."""

    now: int
    head: int | None
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One decision: about the nominal times from `nominal` to `until`, `count` of them. Instants in ms."""

    schedule: str
    nominal: int
    until: int
    count: int
    decided: int
    outcome: str
    reason: str
    kind: str
    job_id: str | None
    due: int

    def to_json(self) -> dict[str, Any]:
        """The entry of `history --json`. Lateness counts from the due time."""
        return {
            "schedule": self.schedule,
            "nominal": iso(self.nominal),
            "until": iso(self.until),
            "count": self.count,
            "decided": iso(self.decided),
            "outcome": self.outcome,
            "reason": self.reason or None,
            "kind": self.kind,
            "job_id": self.job_id,
            "lateness_ms": self.decided - self.due,
        }


Decision = Fire | Against
