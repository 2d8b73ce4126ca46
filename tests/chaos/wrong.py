"""DELIBERATELY WRONG committers: the checker has to find each of them out. Nothing here is used but by its tests.

`wrong.py NAME …` is `rqbeat …` with the commit replaced by one that other schedulers have. Everything else is the real
beat. What the product does in one step is done here in several, with a pause where a process may die; the pause makes
likely what else is rare, and creates no fault that was not there.

    key-first      the dedupe key is set, then the job pushed: a kill in between loses the fire, for the key says "done"
    enqueue-first  the job is pushed, then the cursor moved: a kill in between fires it again
    lock-only      a leader alone fires, from the moment when it began to lead, and remembers what it has fired in its
                   memory: what the one before it did not get done is lost
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgpack

from scheduler import wiring
from scheduler.cli import main
from scheduler.planner import Fire
from scheduler.ports import Committed, DueBatch, Lease, Planned
from scheduler.store import RedisTimetable
from shared.clock import Clock
from shared.keys import Keys
from shared.redisio.connection import Client, server_now, store_errors

PAUSE = 0.03


class InSteps(RedisTimetable):
    """What all of them share: the writes of a commit, one by one."""

    def __init__(self, client: Client, keys: Keys, clock: Clock, *signing: Any) -> None:
        super().__init__(client, keys, clock, *signing)
        self._client = client

    def commits(
        self, _lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        for plans in batches:
            with store_errors():
                for planned in plans:
                    self.fire_all(planned, [one for one in planned.plan.decisions if isinstance(one, Fire)])
            yield plans, Committed(now=self.now(), head=self.now())

    def fire_all(self, planned: Planned, fires: Sequence[Fire]) -> None:
        raise NotImplementedError

    def now(self) -> int:
        return server_now(self._client)

    def claim(self, fire: Fire, schedule_id: str) -> bool:
        return bool(self._client.set(f"{self._keys.fired_prefix}{schedule_id}:{fire.nominal}", fire.job_id, nx=True))

    def push(self, fire: Fire) -> None:
        record = {"status": "queued", "data": "x", "origin": "default"}
        self._client.hset(self._keys.rq_job(fire.job_id), mapping=record)
        self._client.sadd(self._keys.rq_queues, self._keys.rq_queue("default"))
        self._client.rpush(self._keys.rq_queue("default"), fire.job_id)

    def record(self, fire: Fire, schedule_id: str) -> None:
        row = [self.now(), "enqueued", "", schedule_id, fire.nominal, fire.nominal, 1, fire.kind, fire.job_id, fire.due]
        self._client.rpush(self._keys.ledger, msgpack.packb(row))
        self._client.hincrby(self._keys.schedule_prefix + schedule_id, "fired", 1)

    def advance(self, planned: Planned) -> None:
        plan = planned.plan
        self._client.hset(self._keys.schedule_prefix + plan.schedule_id, "cursor", plan.cursor)
        if plan.due is None:
            self._client.zrem(self._keys.timetable, plan.schedule_id)
        else:
            self._client.zadd(self._keys.timetable, {plan.schedule_id: plan.due})


class KeyFirst(InSteps):
    def fire_all(self, planned: Planned, fires: Sequence[Fire]) -> None:
        for fire in fires:
            if self.claim(fire, planned.schedule.id):
                time.sleep(PAUSE)
                self.push(fire)
                self.record(fire, planned.schedule.id)
        self.advance(planned)


class EnqueueFirst(InSteps):
    def fire_all(self, planned: Planned, fires: Sequence[Fire]) -> None:
        for fire in fires:
            self.push(fire)
            time.sleep(PAUSE)
            self.record(fire, planned.schedule.id)
        self.advance(planned)


class LockOnly(InSteps):
    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self._leads_since = 0
        self._fired: dict[str, int] = {}

    def due(self, now: int, most: int, most_late: int) -> DueBatch:
        batch = super().due(now, most, most_late)
        self._leads_since = self._leads_since or self.now() - 1
        rows = [replace(row, cursor=self._fired.get(row.id, self._leads_since)) for row in batch.rows]
        return replace(batch, rows=rows)

    def fire_all(self, planned: Planned, fires: Sequence[Fire]) -> None:
        for fire in fires:
            self.push(fire)
            self.record(fire, planned.schedule.id)
            time.sleep(PAUSE)
        self._fired[planned.schedule.id] = planned.plan.cursor
        self.advance(planned)


COMMITTERS: Mapping[str, type[RedisTimetable]] = {
    "key-first": KeyFirst,
    "enqueue-first": EnqueueFirst,
    "lock-only": LockOnly,
    "right": RedisTimetable,
}

if __name__ == "__main__":
    wiring.RedisTimetable = COMMITTERS[sys.argv[1]]  # type: ignore[misc]
    main(sys.argv[2:])
