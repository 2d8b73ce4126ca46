"""Many schedules due in the same second: fires per second until the last job is in Redis, beside peers in the same run.

    python tests/bench/burst.py [COUNT]       10,000 unless given

Three ways, on one server of its own, one after the other, twice each in turn, the best of each:

    rqbeat    full decisions: read what is due, plan, and commit with dedupe key, ledger, RQ job, push, next due time
    rq cron   RQ's own scheduler, its jobs due at once
    raw       the same RQ job hashes and pushes in one script for each 500 jobs and nothing else decided: the limit

Only ratios within one run mean anything.
"""

from __future__ import annotations

import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench_jobs import Nothing, nothing
from rq.cron import CronScheduler

from scheduler.admin import Admin
from scheduler.bell import Bell
from scheduler.schedule import build
from scheduler.triggers import IntervalTrigger
from scheduler.wiring import build_beat
from shared.clock import SystemClock
from shared.payload import DATA_TAIL, Call, FireContext, context_bin, data_head, pack_call
from shared.redisio.connection import connect
from shared.redisio.records import job_fields, stamp
from shared.redisio.server import OwnServer
from shared.settings import Settings

HOUR = 3600


class DueClock(SystemClock):
    """A clock that says `held` until released: so that nothing fires while schedules are being stored."""

    held: int | None = None

    def now_ms(self) -> int:
        return super().now_ms() if self.held is None else self.held


def rqbeat(client: Any, settings: Settings, count: int) -> float:
    """Seconds from the first look to the last job in Redis."""
    clock = DueClock()
    due = clock.now_ms() // 1000
    trigger = IntervalTrigger(HOUR, start=due)
    admin = Admin(client, settings.keys, clock, "bench")
    admin.upsert([build(Nothing, trigger, {"id": f"s{n}", "args": [n], "misfire_grace": 600}) for n in range(count)])
    rewind(client, settings, count, due * 1000)
    beat = build_beat(settings, client, Bell(), clock, lambda _facts: None)
    beat.turn()  # takes the lease and decides a first batch
    done = depth(client)
    started = time.perf_counter()
    while depth(client) < count:
        beat.turn()
    return (time.perf_counter() - started) * count / (count - done)


def rewind(client: Any, settings: Settings, count: int, due: int) -> None:
    """Set every cursor to just before a fire that is due now, on time."""
    keys = settings.keys
    pipe = client.pipeline(transaction=False)
    for n in range(count):
        pipe.hset(keys.schedule_prefix + f"s{n}", "cursor", due - 1)
        pipe.zadd(keys.timetable, {f"s{n}": due})
    pipe.execute()


def rq_cron(client: Any, count: int) -> float:
    scheduler = CronScheduler(connection=client, logging_level=logging.ERROR)
    for n in range(count):
        scheduler.register(nothing, queue_name="default", args=(n,), interval=HOUR)
    started = time.perf_counter()
    scheduler.enqueue_jobs()
    return time.perf_counter() - started


def raw(client: Any, settings: Settings, count: int) -> float:
    """The limit: hashes and pushes alone, encoded beforehand."""
    head = data_head(pack_call(Call(job=Nothing.name, args=(1,))))
    schedule = build(Nothing, IntervalTrigger(HOUR), {"args": [1]})
    fields = job_fields(Nothing.name, schedule.options, None)
    now = SystemClock().now_ms()
    context = context_bin(FireContext(kind="scheduled", enqueued=now, schedule="s", nominal=now))
    jobs = [[f"raw-{n}", head + context + DATA_TAIL] for n in range(count)]
    script = client.register_script(RAW)
    started = time.perf_counter()
    for start in range(0, count, 500):
        flat = [part for job in jobs[start : start + 500] for part in job]
        script(keys=[settings.keys.rq_queue("default")], args=[stamp(now), len(fields), *fields, *flat])
    return time.perf_counter() - started


RAW = """
local fields, first = {}, 3 + ARGV[2]
for i = 3, first - 1 do fields[#fields + 1] = ARGV[i] end
for i = first, #ARGV, 2 do
  redis.call('HSET', 'rq:job:' .. ARGV[i], 'status', 'queued', 'data', ARGV[i + 1], 'created_at', ARGV[1],
    'enqueued_at', ARGV[1], unpack(fields))
  redis.call('RPUSH', KEYS[1], ARGV[i])
end
"""


def depth(client: Any) -> int:
    return int(client.llen("rq:queue:default"))


def main(count: int) -> None:
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory(prefix="rqbench-") as folder:
        server = OwnServer(Path(folder))
        server.start()
        settings = Settings(url=server.url)
        with connect(server.url, reply_seconds=60) as client:
            ways = {
                "rqbeat": lambda: rqbeat(client, settings, count),
                "rq cron": lambda: rq_cron(client, count),
                "raw": lambda: raw(client, settings, count),
            }
            rates = dict.fromkeys(ways, 0.0)
            for _ in range(2):
                for name, way in ways.items():
                    client.flushall()
                    rates[name] = max(rates[name], count / way())
        server.kill()
    for name, rate in rates.items():
        print(f"{name:8} {rate:10,.0f} fires/s   rqbeat is {rates['rqbeat'] / rate:.2f} times this")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
