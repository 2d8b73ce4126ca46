"""What a beat would decide between two instants: the real planner and the memory store on a virtual clock.

Time jumps from one thing that happens to the next: a due time, the end of a job, the edge of an outage or a pause, a
step of the clock. Between two of them a schedule whose jobs take no time is decided alike at each of its due times, so
such a stretch is one range, found by the trigger's own arithmetic; it is what deciding fire by fire comes to.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol, overload

from scheduler.memory import MemoryStore
from scheduler.memoryfiring import Entry
from scheduler.planner import due_time, missed_while_paused, plan
from scheduler.ports import LedgerEntry, Planned
from scheduler.schedule import Schedule
from shared.errors import ConfigurationError
from shared.instants import duration_ms, instant_ms

Instant = float | datetime
Span = tuple[Instant, Instant]
MOST_DUE = 10_000


class Declares(Protocol):
    """Anything that has schedules: a manager."""

    @property
    def schedules(self) -> Sequence[Schedule]: ...


class Decisions(Sequence[LedgerEntry]):
    """Ledger entries in the order of their making; runs of like ones are ranges."""

    def __init__(self, entries: Iterable[LedgerEntry]) -> None:
        self._entries = tuple(entries)

    @property
    def fires(self) -> Decisions:
        """Those that enqueued a job."""
        return Decisions(entry for entry in self._entries if entry.outcome == "enqueued")

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many nominal times they cover in all."""
        return sum(entry.count for entry in self._entries)

    def of(self, schedule_id: str) -> Decisions:
        """Those of one schedule."""
        return Decisions(entry for entry in self._entries if entry.schedule == schedule_id)

    @overload
    def __getitem__(self, index: int) -> LedgerEntry: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[LedgerEntry]: ...
    def __getitem__(self, index: int | slice) -> LedgerEntry | Sequence[LedgerEntry]:
        return self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[LedgerEntry]:
        return iter(self._entries)

    def __repr__(self) -> str:
        return f"Decisions({list(self._entries)!r})"


@dataclass(slots=True)
class VirtualClock:
    """Elapsed time, and a wall clock that may be stepped against it; both in ms."""

    elapsed: int
    offset: int = 0

    def now_ms(self) -> int:
        return self.elapsed + self.offset

    def monotonic(self) -> float:
        return self.elapsed / 1000

    def sleep(self, seconds: float) -> None:
        self.elapsed += round(seconds * 1000)


def simulate(
    manager: Declares,
    start: Instant,
    end: Instant,
    *,
    outages: Sequence[Span] = (),
    pauses: Mapping[str, Sequence[Span]] | None = None,
    clock_steps: Sequence[tuple[Instant, float]] = (),
    durations: Mapping[str, float | timedelta] | None = None,
    as_ranges: bool = True,
) -> Decisions:
    """The decisions of a beat that runs from `start` to `end` (exclusive) and first sees the schedules at `start`.

    `outages` are spans without a beat, `pauses` spans by schedule id, `clock_steps` instants at which the wall clock
    jumps by so many seconds, `durations` how long the jobs of a schedule run (none unless given). Takes no real time
    and no Redis. Without `as_ranges` every enqueued fire is an entry of its own.
    """
    first, last = instant_ms(start, "start"), instant_ms(end, "end")
    clock = VirtualClock(first)
    lengths = {name: duration_ms(value, f"durations[{name!r}]") for name, value in (durations or {}).items()}
    run = _Run(manager.schedules, clock, lengths, may_stretch=as_ranges and not clock_steps)
    for at, happen in _script(run, outages, pauses or {}, clock_steps):
        run.until(min(at, last))
        if at >= last:
            break
        happen()
    run.until(last)
    return Decisions(_merged(run.store.firing.ledger) if as_ranges else run.store.firing.ledger)


class _Run:
    """One simulated beat. Times are elapsed ms unless they are said to be of the wall clock."""

    def __init__(
        self, schedules: Sequence[Schedule], clock: VirtualClock, durations: Mapping[str, int], *, may_stretch: bool
    ) -> None:
        self.clock = clock
        self.store = MemoryStore(clock)
        self._durations = durations
        self._may_stretch = may_stretch
        self._is_down = False
        self._ends: list[tuple[int, str]] = []
        lease = self.store.lease.claim("simulated", self.store.lease.read())
        if lease is None:
            raise RuntimeError("a new store has a free lease")
        self._lease = lease
        for schedule in schedules:
            self.store.add(schedule)

    def until(self, at: int) -> None:
        """Go on to `at`, deciding what falls due before it."""
        while (following := self._next_event()) is not None and following < at:
            self.clock.elapsed = max(self.clock.elapsed, following)
            self._end_jobs()
            if not self._is_down:
                self._release()
                self._tick(at)
        self.clock.elapsed = max(self.clock.elapsed, at)
        self._end_jobs()

    def go_down(self) -> None:
        self._is_down = True

    def come_up(self) -> None:
        self._is_down = False

    def step(self, seconds: float) -> None:
        self.clock.offset += round(seconds * 1000)

    def pause(self, schedule_id: str) -> None:
        entry = self._entry(schedule_id)
        if entry.status == "active":
            entry.status = "paused"

    def resume(self, schedule_id: str) -> None:
        entry = self._entry(schedule_id)
        if entry.status != "paused":
            return
        moved, missed = missed_while_paused(entry.schedule, entry.cursor, self.clock.now_ms())
        entry.status, entry.cursor = "active", moved
        if missed:
            self.store.firing.record_range(entry, missed)
        self.store.index(entry, entry.schedule.trigger.next_ms(moved))

    def _entry(self, schedule_id: str) -> Entry:
        try:
            return self.store.entries[schedule_id]
        except KeyError:
            raise ConfigurationError(f"pauses: no schedule {schedule_id!r} is declared") from None

    def _next_event(self) -> int | None:
        """The next due time or end of a job, in elapsed time."""
        head = None if self._is_down else self.store.head()
        due = None if head is None else max(head - self.clock.offset, self.clock.elapsed)
        ends = self._ends[0][0] if self._ends else None
        return min((at for at in (due, ends) if at is not None), default=None)

    def _end_jobs(self) -> None:
        while self._ends and self._ends[0][0] <= self.clock.elapsed:
            self.store.firing.jobs.pop(heapq.heappop(self._ends)[1], None)

    def _tick(self, horizon: int) -> None:
        """Decide what is due now, as the beat does; then what is decided alike up to the horizon."""
        now = self.clock.now_ms()
        rows = self.store.due(now, MOST_DUE, MOST_DUE).rows
        if not rows:
            return
        entries = [self.store.entries[row.id] for row in rows]
        plans = [
            Planned(schedule=entry.schedule, revision=entry.revision, plan=plan(entry.schedule, entry.cursor, now))
            for entry in entries
        ]
        before = len(self.store.firing.ledger)
        self.store.commit(self._lease, plans)
        self._start_jobs(self.store.firing.ledger[before:])
        for entry in entries if self._may_stretch else ():
            self._stretch(entry, horizon + self.clock.offset)

    def _release(self) -> None:
        """Send on the fires that waited for a job to end."""
        before = len(self.store.firing.ledger)
        if self.store.release_waiting(self._lease):
            self._start_jobs(self.store.firing.ledger[before:])

    def _start_jobs(self, entries: Sequence[LedgerEntry]) -> None:
        for entry in entries:
            if entry.outcome == "enqueued" and entry.job_id:
                length = self._durations.get(entry.schedule, 0)
                if length:
                    heapq.heappush(self._ends, (self.clock.elapsed + length, entry.job_id))
                else:
                    self.store.firing.jobs.pop(entry.job_id, None)

    def _stretch(self, entry: Entry, horizon: int) -> None:
        """The fires due before `horizon` (wall clock) as one range of fires that were each enqueued when due."""
        schedule = entry.schedule
        if entry.status != "active" or schedule.policy.limit or self._durations.get(schedule.id):
            return
        last = _last_due_before(schedule, horizon)
        if last is None or last <= entry.cursor or entry.next is None:
            return
        due = due_time(schedule, entry.next)
        self.store.firing.ledger.append(
            LedgerEntry(
                schedule=schedule.id,
                nominal=entry.next,
                until=last,
                count=schedule.trigger.count_ms(entry.cursor, last),
                decided=due,
                outcome="enqueued",
                reason="",
                kind="scheduled",
                job_id=None,
                due=due,
            )
        )
        entry.cursor, entry.last = last, last
        self.store.index(entry, schedule.trigger.next_ms(last))


def _last_due_before(schedule: Schedule, horizon: int) -> int | None:
    last = schedule.trigger.prev_ms(horizon)
    if last is not None and due_time(schedule, last) >= horizon:
        return schedule.trigger.prev_ms(last)
    return last


def _script(
    run: _Run,
    outages: Sequence[Span],
    pauses: Mapping[str, Sequence[Span]],
    clock_steps: Sequence[tuple[Instant, float]],
) -> list[tuple[int, Callable[[], None]]]:
    """What is to happen, and when, in order."""
    events: list[tuple[int, Callable[[], None]]] = []
    for begin, finish in outages:
        events += [(instant_ms(begin, "outage"), run.go_down), (instant_ms(finish, "outage"), run.come_up)]
    for schedule_id, spans in pauses.items():
        for begin, finish in spans:
            events.append((instant_ms(begin, "pause"), _calling(run.pause, schedule_id)))
            events.append((instant_ms(finish, "pause"), _calling(run.resume, schedule_id)))
    for at, seconds in clock_steps:
        events.append((instant_ms(at, "clock_steps"), _stepping(run, seconds)))
    return sorted(events, key=lambda event: event[0])


def _calling(change: Callable[[str], None], schedule_id: str) -> Callable[[], None]:
    return lambda: change(schedule_id)


def _stepping(run: _Run, seconds: float) -> Callable[[], None]:
    return lambda: run.step(seconds)


def _merged(entries: Sequence[LedgerEntry]) -> list[LedgerEntry]:
    """Entries of one schedule that follow each other and are alike, as one range each."""
    latest: dict[str, int] = {}
    merged: list[LedgerEntry] = []
    for entry in entries:
        at = latest.get(entry.schedule)
        if at is not None and _alike(merged[at], entry):
            merged[at] = replace(merged[at], until=entry.until, count=merged[at].count + entry.count, job_id=None)
        else:
            latest[entry.schedule] = len(merged)
            merged.append(entry)
    return merged


def _alike(one: LedgerEntry, other: LedgerEntry) -> bool:
    return (one.outcome, one.reason, one.kind) == (other.outcome, other.reason, other.kind)
