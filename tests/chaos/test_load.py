"""Much at once: thousands of schedules due in the same second, and a queue with a backlog of hundreds of thousands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import redis

from scheduler.ports import LedgerEntry
from scheduler.triggers import IntervalTrigger
from shared.redisio.scripts import source
from tests.chaos.arena import SCALE, Arena
from tests.chaos.conftest import Note
from tests.chaos.test_network import sha
from tests.integration.conftest import wait_for

TOGETHER = 10_000 if SCALE > 1 else 5000
BACKLOG = 1_000_000 if SCALE > 1 else 100_000
LOST = 100
FILL = """
local jobs, live, queue = KEYS[1], KEYS[2], KEYS[3]
for n = tonumber(ARGV[1]), tonumber(ARGV[2]) do
  local id = 'backlog-' .. n
  redis.call('HSET', jobs .. id, 'status', 'queued', 'data', 'x', 'origin', 'default', 'created_at', '2026-01-01')
  redis.call('ZADD', live, n, id)
  redis.call('RPUSH', queue, id)
end
"""


@pytest.mark.fault("F56")
def test_sc_many_due_together(arena: Arena, note: Note) -> None:
    """All are enqueued within 10 s under one lease, in calls of many fires each; what comes due meanwhile waits for no
    more than them, and what comes due later for nothing."""
    arena.declare(1, count=TOGETHER, period=1, lead=TOGETHER / 1000 + 0.5)
    due = arena.end - 1
    others = IntervalTrigger(0.1, start=due - 1, end=due + 11)
    arena.store([replace(arena.tick(TOGETHER + n, others), owner="runtime") for n in range(5)])
    arena.start(2)
    wait_for(lambda: arena.leader() and time.time() > due - 0.2, 20, "a leader in time")
    calls = evalsha_calls(arena.client)
    wait_for(lambda: arena.is_decided(due + 2), 15, lambda: f"all decided\n{arena.logs()}")
    calls = evalsha_calls(arena.client) - calls
    verdict = arena.finish()
    together, meanwhile, later = split(arena.history(), due)
    late = lateness(together)
    print(f"late by {percentile(late, 0.99)} ms (p99), {late[-1]} ms (all); {calls / verdict.fires:.4f} calls a fire")
    assert len(together) == TOGETHER
    assert late[-1] <= 10_000
    assert max(lateness(meanwhile)) <= late[-1] + 100
    assert percentile(lateness(later), 0.9) <= 100
    assert calls / verdict.fires < 0.05
    assert arena.client.hget(arena.keys.leader, "term") == b"1"
    note(1, verdict)


@pytest.mark.fault("F56")
def test_jitter_spreads_what_is_due_together(arena: Arena, note: Note) -> None:
    """A thousand schedules of one second with two seconds of jitter: no tenth of a second has more than its share."""
    arena.options["jitter"] = 2
    arena.declare(1, count=1000, period=10, lead=3)
    due = arena.end - 1
    arena.start()
    arena.has_leader()
    wait_for(lambda: arena.is_decided(due + 2), 15, lambda: f"all decided\n{arena.logs()}")
    verdict = arena.finish()
    assert verdict.fires == 1000
    tenths = Counter((entry.decided - round(due * 1000)) // 100 for entry in arena.history())
    assert min(tenths) >= 0
    assert max(tenths) <= 25
    assert max(tenths.values()) < 150
    note(1, verdict)


def split(entries: Sequence[LedgerEntry], due: float) -> tuple[list[LedgerEntry], ...]:
    """The fires of the many; those of the others that came due until the last of the many was decided; and later."""
    names = {f"tick-{n}" for n in range(TOGETHER)}
    together = [entry for entry in entries if entry.schedule in names]
    last = max(entry.decided for entry in together)
    others = [entry for entry in entries if entry.schedule not in names and entry.due >= due * 1000]
    return together, [one for one in others if one.due <= last], [one for one in others if one.due > last]


def lateness(entries: Sequence[LedgerEntry]) -> list[int]:
    """How long after its due time each was decided, ms."""
    return sorted(entry.decided - entry.due for entry in entries)


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share does not exceed."""
    return sorted(values)[max(0, round(share * len(values)) - 1)]


def evalsha_calls(client: redis.Redis) -> int:
    """How many scripts were called so far: the round trips that beats make to fire."""
    return int(client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0))  # type: ignore[union-attr]


@pytest.mark.fault("F55")
def test_a_backlog(arena: Arena) -> None:
    """However long the queue: a commit in 2 ms, a look for lost jobs in 100 ms, and no memory for it in the beat.

    The short form runs beside other tests: what the kernel takes from the server for them is in its slowest commits.
    """
    fill(arena)
    arena.declare(count=3, period=0.05)
    arena.client.config_set("slowlog-max-len", 100_000)
    arena.client.config_set("slowlog-log-slower-than", 0)
    arena.client.slowlog_reset()
    arena.client.script_load(source("reconcile"))  # that its first call, one of two in this time, is a whole one
    try:
        arena.start()
        arena.goes_on(400)
        commits, looks = durations(arena.client, "commit"), durations(arena.client, "reconcile")
    finally:
        arena.client.config_set("slowlog-log-slower-than", 10_000)
    print(f"commits {percentile(commits, 0.99)} us, looks {looks} us, {resident(arena)} kB")
    assert percentile(commits, 0.99 if SCALE > 1 else 0.9) < 2000
    assert looks
    assert max(looks) < 100_000
    assert resident(arena) < 100 * 1024


def fill(arena: Arena) -> None:
    """A queue as long as that, and jobs that were lost before it grew."""
    keys, fill = arena.keys, arena.client.register_script(FILL)
    live, queue = keys.live_prefix + "default", keys.rq_queue("default")
    for start in range(0, BACKLOG, 10_000):
        fill([keys.rq_job_prefix, live, queue], [start, start + 9999])
    arena.client.sadd(keys.rq_queues, queue)
    for n in range(LOST):
        arena.client.hset(keys.rq_job(f"lost-{n}"), mapping={"status": "queued", "data": "x", "origin": "default"})
        arena.client.zadd(live, {f"lost-{n}": -1})


def durations(client: redis.Redis, script: str) -> list[int]:
    """How long each call of a script kept Redis, in microseconds."""
    rows = client.slowlog_get(100_000)
    return [row["duration"] for row in rows if sha(script) in row["command"][:60]]


def resident(arena: Arena) -> int:
    """The memory of the beat, kB."""
    (line,) = [line for line in (arena.proc(0) / "status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])
