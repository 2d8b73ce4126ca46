"""The stores that keep the promises of `scheduler.ports`: each contract test runs against every one of them."""

from __future__ import annotations

from typing import Any

import pytest
import redis

from scheduler.admin import Admin
from scheduler.planner import plan
from scheduler.ports import Lease, Planned, PlanResult
from scheduler.readers import LedgerEntry, Reader
from scheduler.schedule import Schedule, build
from scheduler.store import RedisLease, RedisTimetable
from scheduler.triggers import IntervalTrigger, Trigger
from shared import Job
from shared.clock import SystemClock
from shared.keys import Keys


class Work(Job):
    name = "contract-work"
    queue = "work"

    def handle(self, number: int = 0) -> None: ...


class Stage:
    """A store with a lease held, and short words for what the tests do to it. Times are relative to its start."""

    def __init__(self, client: redis.Redis, keys: Keys) -> None:
        clock = SystemClock()
        self.client, self.keys = client, keys
        self.timetable = RedisTimetable(client, keys, clock)
        self.admin = Admin(client, keys, clock, "tester")
        self.reader = Reader(client, keys)
        self.leases = RedisLease(client, keys)
        self.lease = self.lead("me")
        self.now = clock.now_ms()

    def lead(self, owner: str) -> Lease:
        lease = self.leases.claim(owner, self.leases.read())
        assert lease
        return lease

    def add(self, schedule_id: str = "s", trigger: Trigger | None = None, **options: Any) -> Schedule:
        """Store a schedule that fires every second and is decided up to a minute ago."""
        schedule = build(Work, trigger or IntervalTrigger(1), {"id": schedule_id, "misfire": "all", **options})
        self.admin.upsert([schedule])
        moved = {"cursor": self.now - 60_000, "since": self.now - 60_000}
        self.client.hset(self.keys.schedule_prefix + schedule_id, mapping=moved)
        return schedule

    def plan(self, schedule: Schedule, until: int = 0) -> Planned:
        """A plan for what is due `until` ms from the start."""
        held = self.admin.held([schedule.id])[schedule.id]
        return Planned(schedule=schedule, revision=held.revision, plan=plan(schedule, held.cursor, self.now + until))

    def commit(self, *plans: Planned, lease: Lease | None = None) -> list[PlanResult]:
        committed = self.timetable.commit(lease or self.lease, plans)
        assert committed is not None, "fenced"
        return [committed.result(index) for index in range(len(plans))]

    def queued(self) -> list[str]:
        return [job_id.decode() for job_id in self.client.lrange(self.keys.rq_queue("work"), 0, -1)]  # type: ignore[union-attr]

    def ledger(self, schedule_id: str | None = None) -> list[LedgerEntry]:
        return self.reader.history(schedule_id, most=100_000)[::-1]

    def cursor(self, schedule: Schedule) -> int:
        return self.admin.held([schedule.id])[schedule.id].cursor


@pytest.fixture
def stage(client: redis.Redis, keys: Keys) -> Stage:
    return Stage(client, keys)
