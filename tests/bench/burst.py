"""Many schedules due in the same second: fires per second until the last job is in Redis, beside peers in the same run.

    python tests/bench/burst.py [COUNT] [--others N] [--rounds N]     10,000 unless given

Each way on one server of its own, one after the other, the best of two rounds. Seconds count from the due time to the
last job in Redis:

    rqbeat        full decisions: dedupe key, ledger, RQ job, push, next due time; by a beat that led when they were due
    rqbeat late   the same, by a beat that finds them due when it starts: nothing was planned ahead
    rq cron       RQ's own scheduler with as many cron strings, all due
    rq intervals  the same with intervals, which it has less work with
    same writes   what rqbeat writes, encoded beforehand, in one script for each 1,000 fires, and nothing decided

`--others` stores so many schedules beside them that are not due. Only ratios within one run mean anything.
"""

from __future__ import annotations

import argparse
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench_jobs import Nothing, nothing
from rq.cron import CronScheduler

from scheduler.admin import Admin
from scheduler.bell import Bell
from scheduler.planner import plan
from scheduler.schedule import Schedule, build
from scheduler.store import about, definition_fields
from scheduler.triggers import IntervalTrigger
from scheduler.wiring import build_beat
from shared.clock import SystemClock
from shared.payload import DATA_TAIL, context_bin
from shared.process import collect_seldom
from shared.redisio.connection import connect
from shared.redisio.records import job_fields, stamp
from shared.redisio.scripts import pack
from shared.redisio.server import OwnServer
from shared.settings import Settings

HOUR, DAY = 3600, 86_400
LEAD = 12
AT_ONCE = 1000


class Stage:
    """One server, and how many schedules are due on it."""

    def __init__(self, client: Any, settings: Settings, count: int, others: int) -> None:
        self.client, self.settings, self.count, self.others = client, settings, count, others
        self.clock = SystemClock()

    def depth(self) -> int:
        return int(self.client.llen(self.settings.keys.rq_queue("default")))

    def wait_for_jobs(self) -> float:
        """When the last job was there."""
        while self.depth() < self.count:
            time.sleep(0.002)
        return time.time()

    def store(self) -> list[Schedule]:
        """The schedules, due within an hour of a time that has just been, and those that are not due."""
        start = int(time.time()) - 1
        due = [
            build(Nothing, IntervalTrigger(HOUR, start=start), {"id": f"s{n}", "args": [n]}) for n in range(self.count)
        ]
        later = IntervalTrigger(DAY, start=start - HOUR)
        rest = [build(Nothing, later, {"id": f"other-{n}", "args": [n]}, "runtime") for n in range(self.others)]
        Admin(self.client, self.settings.keys, self.clock, "bench").upsert([*due, *rest])
        return due

    def make_due(self, schedules: list[Schedule], at: int) -> None:
        """Put them where their next fire is at `at` (s): the trigger, its cursor and its entry."""
        keys, again = self.settings.keys, IntervalTrigger(HOUR, start=at)
        for begin in range(0, len(schedules), AT_ONCE):
            pipe = self.client.pipeline(transaction=False)
            for n, schedule in enumerate(schedules[begin : begin + AT_ONCE], begin):
                moved = build(Nothing, again, {"id": schedule.id, "args": [n]})
                pipe.hset(keys.schedule_prefix + schedule.id, mapping=definition_fields(moved))
                pipe.hset(keys.schedule_prefix + schedule.id, "cursor", at * 1000 - 1)
                pipe.zadd(keys.timetable, {schedule.id: at * 1000})
            pipe.execute()

    @contextmanager
    def beat(self) -> Iterator[None]:
        bell = Bell()
        beat = build_beat(self.settings, self.client, bell, self.clock, lambda _facts: None)
        thread = threading.Thread(target=beat.run)
        thread.start()
        yield
        beat.stop()
        thread.join()


def rqbeat(stage: Stage) -> float:
    schedules = stage.store()
    due = int(time.time()) + LEAD + stage.count // 2500
    stage.make_due(schedules, due)
    with stage.beat():
        return stage.wait_for_jobs() - due


def rqbeat_late(stage: Stage) -> float:
    """Late by a few seconds, which is within their grace: full decisions all the same."""
    schedules = stage.store()
    stage.make_due(schedules, int(time.time()) + 1 + stage.count // 15_000)
    time.sleep(1 + stage.count // 15_000)
    with stage.beat():
        started = time.time()
        return stage.wait_for_jobs() - started


def rq_cron(stage: Stage, **rule: Any) -> float:
    scheduler = CronScheduler(connection=stage.client, logging_level=logging.ERROR)
    for n in range(stage.count):
        scheduler.register(nothing, queue_name="default", args=(n,), **rule)
    for job in scheduler.get_jobs():
        job.next_enqueue_time = datetime.now(UTC) - timedelta(seconds=1)
    started = time.time()
    scheduler.enqueue_jobs()
    return stage.wait_for_jobs() - started


def same_writes(stage: Stage) -> float:
    """The limit: everything that a commit leaves behind, on the same stored schedules, ready to be sent."""
    schedules, keys = stage.store(), stage.settings.keys
    now = stage.clock.now_ms()
    script = stage.client.register_script(SAME_WRITES)
    header = pack({
        "stamp": stamp(now), "fields": job_fields(Nothing.name, schedules[0].options, None), "now": str(now),
        "ttl": str(schedules[0].dedupe_ttl), "job": keys.rq_job_prefix, "fired": keys.fired_prefix,
        "own": keys.ledger_prefix, "schedule": keys.schedule_prefix,
    })  # fmt: skip
    rows = [_row(schedule, now) for schedule in schedules]
    batches = [pack(rows[begin : begin + AT_ONCE]) for begin in range(0, len(rows), AT_ONCE)]
    names = [keys.rq_queue("default"), keys.rq_queues, keys.live_prefix + "default", keys.ledger, keys.timetable]
    started = time.time()
    for batch in batches:
        script(keys=names, args=[header, batch])
    return stage.wait_for_jobs() - started


def _row(schedule: Schedule, now: int) -> list[Any]:
    made = plan(schedule, now - HOUR * 1000, now)
    (fire,) = made.decisions
    data = definition_fields(schedule)["head"] + context_bin(fire.context) + DATA_TAIL  # type: ignore[operator, union-attr]
    entry = b"\x9a" + pack(["enqueued", "", now])[1:] + about(schedule.id, now, now, 1, fire.kind, fire.job_id, now)
    return [schedule.id, fire.job_id, data, entry, str(made.cursor), str(made.due)]


SAME_WRITES = """
local h, rows = cmsgpack.unpack(ARGV[1]), cmsgpack.unpack(ARGV[2])
local ids, live, entries, moves = {}, {}, {}, {}
for i, r in ipairs(rows) do
  redis.call('HSET', h.job .. r[2], 'status', 'queued', 'data', r[3], 'created_at', h.stamp, 'enqueued_at', h.stamp,
    unpack(h.fields))
  redis.call('SET', h.fired .. r[1] .. ':' .. r[5], r[2], 'PX', h.ttl)
  redis.call('RPUSH', h.own .. r[1], r[4])
  redis.call('HSET', h.schedule .. r[1], 'fired', '1', 'last', r[5], 'latest', r[2], 'cursor', r[5])
  ids[i], live[2 * i - 1], live[2 * i], entries[i] = r[2], h.now, r[2], r[4]
  moves[2 * i - 1], moves[2 * i] = r[6], r[1]
end
redis.call('RPUSH', KEYS[1], unpack(ids))
redis.call('SADD', KEYS[2], KEYS[1])
redis.call('ZADD', KEYS[3], unpack(live))
redis.call('RPUSH', KEYS[4], unpack(entries))
redis.call('ZADD', KEYS[5], unpack(moves))
"""

WAYS: dict[str, Callable[[Stage], float]] = {
    "rqbeat": rqbeat,
    "rqbeat late": rqbeat_late,
    "rq cron": lambda stage: rq_cron(stage, cron="0 * * * *"),
    "rq intervals": lambda stage: rq_cron(stage, interval=HOUR),
    "same writes": same_writes,
}


def main(count: int, others: int, rounds: int) -> None:
    logging.disable(logging.WARNING)
    collect_seldom()  # as `rqbeat run` does
    best = dict.fromkeys(WAYS, float("inf"))
    with tempfile.TemporaryDirectory(prefix="rqbench-") as folder:
        server = OwnServer(Path(folder))
        server.start()
        with connect(server.url, reply_seconds=60) as client:
            for _ in range(rounds):
                for name, way in WAYS.items():
                    client.flushall()
                    best[name] = min(best[name], way(Stage(client, Settings(url=server.url), count, others)))
        server.kill()
    print(f"{count:,} schedules due at once, {others:,} that are not:")
    for name, seconds in best.items():
        ratios = (f"{ours} {seconds / best[ours]:.2f}" for ours in ("rqbeat", "rqbeat late"))
        print(f"{name:13} {count / seconds:10,.0f} fires/s  {seconds:7.3f} s   times this: {', '.join(ratios)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--others", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    main(asked.count, asked.others, asked.rounds)
