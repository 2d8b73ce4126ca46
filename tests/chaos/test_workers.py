"""With workers: what is enqueued while beats die runs, each job once, and delayed jobs need no beat at all."""

from __future__ import annotations

import random
from typing import Any

from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from tests.chaos.arena import SCALE, Arena, Tick
from tests.chaos.conftest import Note
from tests.chaos.nemesis import kill_beats
from tests.integration.conftest import Program, wait_for


def start_workers(arena: Arena, count: int) -> list[Program]:
    environ = {"RQBEAT_APP": "app:scheduler", "RQBEAT_REDIS_URL": arena.direct}
    return [arena.spawn("worker", "default", **environ) for _ in range(count)]


def test_what_is_enqueued_while_beats_die_runs_once(arena: Arena, rng: random.Random, note: Note) -> None:
    arena.has_workers = True
    arena.declare(4 * SCALE, count=3, period=0.2)
    workers = start_workers(arena, 2)
    arena.start(2)
    kills = kill_beats(arena, rng)
    wait_for(lambda: arena.is_decided(arena.end), 20, "all decided")
    wait_for(lambda: is_drained(arena), 60 * SCALE, f"all run\n{arena.logs()}")
    note(kills, arena.finish())
    assert set(arena.ran().values()) == {1}
    assert [worker.terminate(30) for worker in workers] == [0, 0]


def test_all_beats_dead_delayed_jobs_still_run(arena: Arena) -> None:
    """Workers promote what is due when no beat does: a job delayed by two seconds runs within a few more."""
    arena.declare(count=1)
    arena.start(2)
    arena.has_leader()
    arena.goes_on(1)
    (worker,) = start_workers(arena, 1)
    wait_for(arena.ran, 15, "a run")
    for beat in arena.beats:
        beat.kill()
    with using_outbox(RedisOutbox(arena.client, arena.keys)):
        handle = Tick.options(delay=2).dispatch(0)
    assert arena.client.zscore(arena.keys.rq_registry("scheduled", "default"), handle.id)
    wait_for(lambda: handle.id in arena.ran(), 8, f"the delayed run\n{worker.text}")
    assert worker.terminate(20) == 0


def is_drained(arena: Arena) -> bool:
    """Nothing waits, nothing was popped, nothing runs."""
    keys, client = arena.keys, arena.client
    lists: Any = client.llen(keys.rq_queue("default")) + client.llen(keys.rq_taken("default"))  # type: ignore[operator]
    return not lists and not client.zcard(keys.rq_registry("wip", "default"))
