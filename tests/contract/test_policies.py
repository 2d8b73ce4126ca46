"""Every policy in every situation, on the store in Redis and on the one in memory, with equal results.

A situation is how late a fire is looked at and what became of the job before it. The expected column is spelled out by
hand in TABLE for the default of each policy; the whole product of policies and situations must come out the same on
both stores, and must cover every nominal time once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any, Protocol

import pytest
import redis

from scheduler.admin import Admin
from scheduler.memory import MemoryStore
from scheduler.planner import Fire, plan
from scheduler.ports import Lease, LedgerEntry, Planned, PlanResult
from scheduler.readers import Reader
from scheduler.schedule import Schedule, build
from scheduler.store import RedisLease, RedisTimetable
from scheduler.testing import ManualClock
from scheduler.triggers import IntervalTrigger
from shared import Job
from shared.clock import SystemClock
from shared.ids import fire_job_id
from shared.keys import Keys

GRACE, WINDOW, PERIOD = 30_000, 600_000, 100_000
LATENESS = {"on time": 50, "within grace": 20_000, "beyond grace": 60_000, "beyond window": 650_000}
SITUATIONS = [*LATENESS, "three at once"]
BEFORE = ["none", "queued", "started", "scheduled", "failed", "vanished"]
MISFIRES = ["latest", "all", "earliest", "skip"]
OVERLAPS = ["skip", "allow", "buffer", "replace"]


class Policed(Job):
    name = "policed"
    queue = "policed"

    def handle(self) -> None: ...


class Store(Protocol):
    """What the tests ask of either store. All instants in ms of the store's own clock."""

    def now(self) -> int: ...
    def add(self, schedule: Schedule, cursor: int) -> None: ...
    def earlier_job(self, schedule: Schedule, job_id: str, nominal: int, status: str) -> None: ...
    def commit(self, schedule: Schedule) -> PlanResult: ...
    def release(self) -> int: ...
    def end(self, job_id: str, status: str = "finished") -> None: ...
    def change(self, schedule: Schedule) -> None: ...
    def has_fired(self, schedule: Schedule, times: int) -> None: ...
    def fail(self, schedule: Schedule, times: int) -> None: ...
    def ledger(self) -> list[LedgerEntry]: ...
    def queued(self) -> list[str]: ...
    def status(self, job_id: str) -> str | None: ...
    def stopping(self) -> set[str]: ...
    def held(self, schedule: Schedule) -> tuple[str, int]: ...


class InMemory:
    def __init__(self) -> None:
        self.clock = ManualClock(wall_ms=1_700_000_000_000)
        self.store = MemoryStore(self.clock)
        self.lease = self.store.lease.claim("me", self.store.lease.read())

    def now(self) -> int:
        return self.clock.now_ms()

    def add(self, schedule: Schedule, cursor: int) -> None:
        entry = self.store.add(schedule)
        entry.cursor = cursor
        self.store.index(entry, schedule.trigger.next_ms(cursor))

    def earlier_job(self, schedule: Schedule, job_id: str, nominal: int, status: str) -> None:
        self.store.entries[schedule.id].outstanding[job_id] = nominal
        if status != "vanished":
            self.store.firing.jobs[job_id] = status

    def commit(self, schedule: Schedule) -> PlanResult:
        entry = self.store.entries[schedule.id]
        made = plan(entry.schedule, entry.cursor, self.now())
        assert self.lease
        committed = self.store.commit(self.lease, [Planned(schedule=schedule, revision=entry.revision, plan=made)])
        assert committed
        return committed.result(0)

    def release(self) -> int:
        assert self.lease
        return len(self.store.release_waiting(self.lease))

    def end(self, job_id: str, status: str = "finished") -> None:
        self.store.firing.jobs[job_id] = status

    def change(self, schedule: Schedule) -> None:
        self.store.entries[schedule.id].schedule = schedule

    def has_fired(self, schedule: Schedule, times: int) -> None:
        self.store.entries[schedule.id].fired = times

    def fail(self, schedule: Schedule, times: int) -> None:
        self.store.entries[schedule.id].failures = times

    def ledger(self) -> list[LedgerEntry]:
        return self.store.firing.ledger

    def queued(self) -> list[str]:
        return self.store.firing.queues.get("policed", [])

    def status(self, job_id: str) -> str | None:
        return self.store.firing.jobs.get(job_id)

    def stopping(self) -> set[str]:
        return self.store.firing.stopping

    def held(self, schedule: Schedule) -> tuple[str, int]:
        entry = self.store.entries[schedule.id]
        return entry.status, entry.cursor


class InRedis:
    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        clock = SystemClock()
        self.client, self.keys = client, keys
        self.timetable, self.leases = RedisTimetable(client, keys, clock), RedisLease(client, keys)
        self.admin, self.reader = Admin(client, keys, clock, "tester"), Reader(client, keys)
        lease = self.leases.claim("me", self.leases.read())
        assert lease
        self.lease: Lease = lease

    def now(self) -> int:
        return SystemClock().now_ms()

    def add(self, schedule: Schedule, cursor: int) -> None:
        self.admin.upsert([schedule])
        self.client.hset(self.keys.schedule_prefix + schedule.id, "cursor", cursor)

    def earlier_job(self, schedule: Schedule, job_id: str, nominal: int, status: str) -> None:
        self.client.zadd(self.keys.outstanding_prefix + schedule.id, {job_id: nominal})
        if status != "vanished":
            self.client.hset(self.keys.rq_job(job_id), "status", status)

    def commit(self, schedule: Schedule) -> PlanResult:
        held = self.admin.held([schedule.id])[schedule.id]
        made = plan(schedule, held.cursor, self.now())
        planned = Planned(schedule=schedule, revision=held.revision, plan=made)
        committed = self.timetable.commit(self.lease, [planned])
        assert committed
        return committed.result(0)

    def release(self) -> int:
        return len(self.timetable.release_waiting(self.lease))

    def end(self, job_id: str, status: str = "finished") -> None:
        self.client.hset(self.keys.rq_job(job_id), "status", status)

    def change(self, schedule: Schedule) -> None:
        self.admin.upsert([schedule])

    def has_fired(self, schedule: Schedule, times: int) -> None:
        self.client.hset(self.keys.schedule_prefix + schedule.id, "fired", times)

    def fail(self, schedule: Schedule, times: int) -> None:
        self.client.hset(self.keys.stats_prefix + schedule.id, "failures", times)

    def ledger(self) -> list[LedgerEntry]:
        return self.reader.history(most=10_000)[::-1]

    def queued(self) -> list[str]:
        return [job_id.decode() for job_id in self.client.lrange(self.keys.rq_queue("policed"), 0, -1)]  # type: ignore[union-attr]

    def status(self, job_id: str) -> str | None:
        found = self.client.hget(self.keys.rq_job(job_id), "status")
        return None if found is None else found.decode()  # type: ignore[union-attr]

    def stopping(self) -> set[str]:
        return {job_id.decode() for job_id in self.client.zrange(self.keys.stopping, 0, -1)}  # type: ignore[union-attr]

    def held(self, schedule: Schedule) -> tuple[str, int]:
        found = self.admin.held([schedule.id])[schedule.id]
        return found.status, found.cursor


class WithLatest(InRedis):
    """The earlier job is not among others that still live: it is the latest in the schedule's own record."""

    def earlier_job(self, schedule: Schedule, job_id: str, nominal: int, status: str) -> None:
        super().earlier_job(schedule, job_id, nominal, status)
        self.client.delete(self.keys.outstanding_prefix + schedule.id)
        self.client.hset(self.keys.schedule_prefix + schedule.id, "latest", job_id)


@pytest.fixture(params=["memory", "redis", "latest"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "memory":
        return InMemory()
    kind = InRedis if request.param == "redis" else WithLatest
    return kind(request.getfixturevalue("client"), request.getfixturevalue("keys"))


Stage = tuple[Schedule, int, str]


def set_up(store: Store, situation: str, before: str, **options: Any) -> Stage:
    """One schedule in a situation: it, its first undecided nominal time, and the id of the job before that."""
    lateness = LATENESS.get(situation, 2 * PERIOD + 50)
    start = (store.now() - lateness) // 1000 * 1000
    policies = {"misfire_grace": GRACE / 1000, "catchup_window": WINDOW / 1000, **options}
    period = PERIOD if situation == "three at once" else 10 * WINDOW
    schedule = build(Policed, IntervalTrigger(period / 1000, start=start / 1000), {"id": "s", **policies})
    store.add(schedule, start - 1)
    earlier = fire_job_id("s", start - period)
    if before != "none":
        store.earlier_job(schedule, earlier, start - period, before)
    return schedule, start, earlier


def rows(store: Store, start: int) -> list[tuple[str, str, str, int, int]]:
    """The ledger: outcome, reason, kind, which nominal time (from 0), how many."""
    return [
        (entry.outcome, entry.reason, entry.kind, (entry.nominal - start) // PERIOD, entry.count)
        for entry in store.ledger()
    ]


TABLE = [
    # situation        before       options                 the ledger, as outcome(reason) kind
    ("on time", "none", {}, ["enqueued scheduled"]),
    ("on time", "queued", {}, ["skipped(overlap) scheduled"]),
    ("on time", "started", {}, ["skipped(overlap) scheduled"]),
    ("on time", "scheduled", {}, ["skipped(overlap) scheduled"]),
    ("on time", "failed", {}, ["enqueued scheduled"]),
    ("on time", "vanished", {}, ["enqueued scheduled"]),
    ("on time", "started", {"overlap": "allow"}, ["enqueued scheduled"]),
    ("on time", "started", {"overlap": "allow", "max_instances": 1}, ["skipped(overlap) scheduled"]),
    ("on time", "started", {"overlap": "buffer"}, []),
    ("on time", "started", {"overlap": "replace"}, ["enqueued scheduled"]),
    ("within grace", "none", {}, ["enqueued scheduled"]),
    ("within grace", "none", {"misfire": "skip"}, ["enqueued scheduled"]),
    ("beyond grace", "none", {}, ["enqueued catchup"]),
    ("beyond grace", "none", {"misfire": "skip"}, ["missed(misfire) catchup"]),
    ("beyond window", "none", {}, ["missed(window) catchup"]),
    ("beyond window", "none", {"misfire": "all"}, ["missed(window) catchup"]),
    ("three at once", "none", {}, ["coalesced(misfire) catchup", "enqueued scheduled"]),
    (
        "three at once",
        "none",
        {"misfire": "all"},
        ["enqueued catchup", "skipped(overlap) catchup", "skipped(overlap) scheduled"],
    ),
    (
        "three at once",
        "none",
        {"misfire": "all", "overlap": "allow"},
        ["enqueued catchup"] * 2 + ["enqueued scheduled"],
    ),
    (
        "three at once",
        "none",
        {"misfire": "all", "overlap": "buffer"},
        ["enqueued catchup", "coalesced(buffer) catchup"],
    ),
    (
        "three at once",
        "none",
        {"misfire": "all", "overlap": "replace"},
        ["enqueued catchup"] * 2 + ["enqueued scheduled"],
    ),
    (
        "three at once",
        "none",
        {"misfire": "earliest"},
        ["enqueued catchup", "coalesced(misfire) catchup", "skipped(overlap) scheduled"],
    ),
    ("three at once", "none", {"misfire": "skip"}, ["missed(misfire) catchup", "enqueued scheduled"]),
    (
        "three at once",
        "none",
        {"expires_in": 150},
        ["missed(deadline) catchup", "coalesced(misfire) catchup", "enqueued scheduled"],
    ),
    ("on time", "none", {"expires_in": 0.01}, ["missed(deadline) catchup"]),
]


@pytest.mark.parametrize(("situation", "before", "options", "expected"), TABLE)
def test_the_table(store: Store, situation: str, before: str, options: dict[str, Any], expected: list[str]) -> None:
    schedule, start, _ = set_up(store, situation, before, **options)
    assert store.commit(schedule).code == "ok"
    told = [
        f"{outcome}({reason}) {kind}" if reason else f"{outcome} {kind}"
        for outcome, reason, kind, *_ in rows(store, start)
    ]
    assert told == expected


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("before", BEFORE)
def test_both_stores_come_to_the_same_in_every_combination(
    situation: str, before: str, client: redis.Redis, keys: Keys
) -> None:
    for misfire, overlap in product(MISFIRES, OVERLAPS):
        seen = []
        for kind in (InMemory, partial(InRedis, client, keys), partial(WithLatest, client, keys)):
            client.flushall()
            store: Store = kind()
            schedule, start, earlier = set_up(store, situation, before, misfire=misfire, overlap=overlap)
            result = store.commit(schedule)
            decided = rows(store, start)
            seen.append(
                (
                    result.code,
                    dict(result.settled),
                    decided,
                    len(store.queued()),
                    store.status(earlier),
                    earlier in store.stopping(),
                    store.held(schedule)[1] - start,
                )
            )
            waits = [outcome for outcome, _ in result.settled.values() if outcome == "waiting"]
            coalesced = [row for row in decided if row[1] == "buffer"]
            fires = 3 if situation == "three at once" else 1
            assert sum(row[4] for row in decided) + len(waits) - len(coalesced) == fires, (misfire, overlap)
        assert seen[0] == seen[1] == seen[2], (misfire, overlap)


def test_a_buffered_fire_goes_out_when_its_predecessor_has_ended(store: Store) -> None:
    schedule, start, earlier = set_up(store, "on time", "started", overlap="buffer")
    assert dict(store.commit(schedule).settled) == {0: ("waiting", "")}
    assert (store.release(), store.queued()) == (0, [])
    store.end(earlier)
    assert store.release() == 1
    assert store.queued() == [fire_job_id("s", start)]
    assert rows(store, start) == [("enqueued", "", "scheduled", 0, 1)]
    assert store.release() == 0


def test_a_fire_that_waited_is_missed_where_the_limit_was_lowered_meanwhile(store: Store) -> None:
    schedule, start, earlier = set_up(store, "on time", "started", overlap="buffer", limit=2)
    store.has_fired(schedule, 1)
    assert dict(store.commit(schedule).settled) == {0: ("waiting", "")}
    store.change(replace(schedule, policy=replace(schedule.policy, limit=1)))
    store.end(earlier)
    assert store.release() == 1
    assert store.queued() == []
    assert [row[:2] for row in rows(store, start)] == [("missed", "limit")]


def test_a_newer_fire_supersedes_one_that_waits(store: Store) -> None:
    schedule, start, earlier = set_up(store, "three at once", "started", overlap="buffer", misfire="all")
    store.commit(schedule)
    assert [row[:2] for row in rows(store, start)] == [("coalesced", "buffer")] * 2
    assert {entry.job_id for entry in store.ledger()} == {fire_job_id("s", start + n * PERIOD) for n in (1, 2)}
    store.end(earlier)
    store.release()
    assert store.queued() == [fire_job_id("s", start + 2 * PERIOD)]


@pytest.mark.parametrize(
    ("before", "status", "is_stopped"),
    [("queued", "canceled", False), ("scheduled", "canceled", False), ("started", "started", True)],
)
def test_replace_takes_the_predecessor_out_of_the_way(store: Store, before: str, status: str, is_stopped: bool) -> None:
    schedule, start, earlier = set_up(store, "on time", before, overlap="replace")
    store.commit(schedule)
    assert store.queued() == [fire_job_id("s", start)]
    assert (store.status(earlier), earlier in store.stopping()) == (status, is_stopped)


@pytest.mark.parametrize(("on_full", "expected"), [("skip", [("skipped", "queue_full")]), ("hold", [])])
def test_a_full_queue_skips_or_holds(store: Store, on_full: str, expected: list[tuple[str, str]]) -> None:
    filler = build(
        Policed, IntervalTrigger(1), {"id": "filler", "overlap": "allow", "misfire": "all", "catchup_limit": 3}
    )
    store.add(filler, store.now() - 10_000)
    store.commit(filler)
    assert len(store.queued()) == 3
    schedule, start, _ = set_up(store, "on time", "none", max_queue_depth=3, on_full=on_full)
    result = store.commit(schedule)
    own = [(entry.outcome, entry.reason) for entry in store.ledger() if entry.schedule == "s"]
    assert own == expected
    assert result.code == ("held" if on_full == "hold" else "ok")
    assert store.held(schedule)[1] == (start - 1 if on_full == "hold" else start)


def test_failures_in_a_row_pause_a_schedule_with_a_note(store: Store) -> None:
    schedule, _, _ = set_up(store, "on time", "none", pause_after_failures=3)
    store.fail(schedule, 2)
    assert store.commit(schedule).code == "ok"
    other, start, _ = set_up_again(store, pause_after_failures=3)
    store.fail(other, 3)
    result = store.commit(other)
    assert (result.code, "3 failed runs" in result.detail) == ("paused", True)
    assert store.held(other) == ("paused", start - 1)


def set_up_again(store: Store, **options: Any) -> Stage:
    start = store.now() // 1000 * 1000 - 1000
    schedule = build(Policed, IntervalTrigger(6000, start=start / 1000), {"id": "other", **options})
    store.add(schedule, start - 1)
    return schedule, start, ""


def test_a_plan_holds_what_its_decisions_say(store: Store) -> None:
    schedule, start, _ = set_up(store, "three at once", "none", misfire="all", overlap="allow")
    made = plan(schedule, start - 1, store.now())
    fires: list[Fire] = [decision for decision in made.decisions if isinstance(decision, Fire)]
    store.commit(schedule)
    assert store.queued() == [fire.job_id for fire in fires]


def test_replace_leaves_no_dead_entries_and_makes_room(store: Store) -> None:
    """key-partial-removal: many fires without a worker leave one entry, the newest, also where one alone may wait."""
    schedule = build(
        Policed, IntervalTrigger(1), {"id": "s", "overlap": "replace", "misfire": "all", "max_queue_depth": 1}
    )
    store.add(schedule, store.now() // 1000 * 1000 - 20_000)
    store.commit(schedule)
    assert store.queued() == [fire_job_id("s", store.held(schedule)[1])]
    assert {entry.outcome for entry in store.ledger()} == {"enqueued"}
