"""With workers: what is enqueued while beats die runs, each job once, and delayed jobs need no beat at all."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from shared import Retry
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from tests.chaos.arena import OPTIONS, SCALE, Arena, Tick
from tests.chaos.conftest import MakeClock, Note
from tests.chaos.nemesis import kill_beats
from tests.integration.conftest import Program, wait_for

HURRIED = Path(__file__).parents[1] / "integration/worker/app/hurried.py"
"""An app whose workers recover within seconds; in the long form they have a minute, as shipped."""


def start_workers(arena: Arena, count: int, app: str = "app:scheduler", **more: str) -> list[Program]:
    environ = {"RQBEAT_APP": app, "HURRIED_APP": "app:scheduler", "RQBEAT_REDIS_URL": arena.direct, **more}
    return [arena.spawn("worker", "default", **environ) for _ in range(count)]


@pytest.mark.fault("F37")
def test_whole_workers_killed_at_random_lose_no_job(arena: Arena, rng: random.Random, note: Note) -> None:
    """Worker and horse at once, as with a container. Whatever the kill broke off is tried again; all ends well."""
    (arena.folder / "hurried.py").write_text(HURRIED.read_text())
    app = "hurried:scheduler" if SCALE <= 1 else "app:scheduler"
    arena.has_workers = True
    arena.options = {**OPTIONS, "retry": Retry(max=9)}
    arena.declare(45 if SCALE > 1 else 4, count=3, period=0.4)
    lasting = {"CHAOS_RUN_SECONDS": "0.2"}
    workers, kills = start_workers(arena, 2, app, **lasting), 0
    arena.start(1)
    for left in arena.ticks():
        time.sleep(min(left, rng.uniform(0.3, 1.5)))
        kill_tree(workers.pop(rng.randrange(2)))
        workers += start_workers(arena, 1, app, **lasting)
        kills += 1
    wait_for(lambda: is_drained(arena), 100, lambda: f"all run\n{arena.logs()}")
    verdict = arena.finish()
    note(kills, verdict)
    print(f"{kills} kills, {verdict.fires} jobs, {sum(arena.ran().values())} runs")
    assert verdict.fires == len(arena.ran())
    assert [worker.terminate(30) for worker in workers] == [0, 0]


def kill_tree(program: Program) -> None:
    """Everything in its session, at once."""
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(entry.name)) == program.process.pid:
                os.kill(int(entry.name), signal.SIGKILL)
    program.process.wait()


@pytest.mark.fault("F52")
def test_wd_retry_scheduler_dead_the_leader_is_killed(arena: Arena) -> None:
    """Delayed jobs are promoted by the standby, or by a worker: no later than their time, a lease and two seconds."""
    arena.has_workers = True
    arena.declare(count=1, period=60)
    arena.start(2)
    leader = arena.has_leader()
    (worker,) = start_workers(arena, 1)
    wait_for(lambda: "serves" in worker.text, 15, "a worker")
    with using_outbox(RedisOutbox(arena.client, arena.keys)):
        due, handles = time.time() + 2, [Tick.options(delay=2).dispatch(0) for _ in range(20)]
    time.sleep(1.5)
    leader.kill()
    wait_for(lambda: {handle.id for handle in handles} <= arena.ran().keys(), 20, lambda: f"all run\n{arena.logs()}")
    lateness = max(at for _, at in arena.run_times()) - due
    print(f"the last of 20 began {lateness:.2f} s after it was due")
    assert lateness <= 3 + 2
    assert worker.terminate(20) == 0


def test_what_is_enqueued_while_beats_die_runs_once(arena: Arena, rng: random.Random, note: Note) -> None:
    arena.has_workers = True
    arena.declare(4 * SCALE, count=3, period=0.2)
    workers = start_workers(arena, 2)
    arena.start(2)
    kills = kill_beats(arena, rng)
    wait_for(lambda: arena.is_decided(arena.end), 20, "all decided")
    wait_for(lambda: is_drained(arena), 60 * SCALE, lambda: f"all run\n{arena.logs()}")
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
    wait_for(lambda: handle.id in arena.ran(), 8, lambda: f"the delayed run\n{worker.text}")
    assert worker.terminate(20) == 0


@pytest.mark.parametrize(("hours", "seconds"), [(1, 3), (-1, 7)])
def test_a_clock_that_is_set_under_a_run_neither_ends_nor_repeats_it(
    arena: Arena, wrong_clock: MakeClock, hours: int, seconds: int
) -> None:
    """RQ would find it an hour past its time-out (clock-step-forward), or its lease past its end (clock-step-back)."""
    (arena.folder / "hurried.py").write_text(HURRIED.read_text())
    clock = wrong_clock()
    arena.declare(count=1, period=60)
    (first,) = start_workers(arena, 1, "hurried:scheduler", CHAOS_RUN_SECONDS=str(seconds), **clock.environ)
    with using_outbox(RedisOutbox(arena.client, arena.keys)):
        handle = Tick.options(queue="default").dispatch(0)
        wait_for(arena.ran, 15, "a run")
        (second,) = start_workers(arena, 1, "hurried:scheduler")
        clock.set(hours * 3600)
        wait_for(lambda: handle.status() == "finished", 15, lambda: f"its end\n{first.text}")
    assert set(arena.ran().values()) == {1}
    assert "abandoned" not in second.text


def is_drained(arena: Arena) -> bool:
    """Nothing waits, nothing was popped, nothing runs."""
    keys, client = arena.keys, arena.client
    lists: Any = client.llen(keys.rq_queue("default")) + client.llen(keys.rq_taken("default"))  # type: ignore[operator]
    return not lists and not client.zcard(keys.rq_registry("wip", "default"))
