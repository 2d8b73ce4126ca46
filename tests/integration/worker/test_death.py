"""Kills at every point of a run, and what becomes of the job. Figures are for the settings as shipped."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import pytest
import redis

from shared.keys import Keys
from tests.chaos.arena import SCALE

WITHIN = 90.0


def started(effects: Callable[[str], list[str]], mark: str) -> int:
    """The process id of the run that began last, 0 before."""
    found = effects(f"{mark}-started")
    return int(found[-1].partition(":")[2]) if found else 0


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def pop_as_a_worker_would(client: redis.Redis, keys: Keys) -> None:
    assert client.lmove(keys.rq_queue("default"), keys.rq_taken("default"))


def test_wd_sigkill_mid_job_an_orphan_dies_within_a_second(workers: Any, effects: Any, eventually: Any) -> None:
    process = workers.start("default")
    jobs.Slow.dispatch(600)
    run = eventually(lambda: started(effects, "slow"))
    process.kill()
    eventually(lambda: not is_alive(run), 1.0)


@pytest.mark.fault("F38")
def test_poison_oom_kill_has_bounded_attempts_and_the_worker_lives(
    workers: Any, effects: Any, status: Any, reason: Any, eventually: Any
) -> None:
    process = workers.start("default")
    handle = jobs.Suicidal.dispatch()
    eventually(lambda: status(handle.id) == "failed")
    assert len(effects("suicidal")) == 4
    eventually(lambda: reason(handle.id) == "killed by signal 9: out of memory, or by hand")
    assert process.poll() is None
    assert jobs.Sync.dispatch("next").result(5) == "next"


def test_a_run_that_leaves_with_exit_0_fails_at_once(workers: Any, status: Any, reason: Any, eventually: Any) -> None:
    workers.start("default")
    handle = jobs.Leaving.dispatch()
    eventually(lambda: status(handle.id) == "failed", 5)
    eventually(lambda: "its process ended by itself" in reason(handle.id))
    assert jobs.Sync.dispatch("next").result(5) == "next"


def test_wd_between_pop_and_start_is_put_back_and_uses_no_attempt(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, eventually: Any
) -> None:
    handle = jobs.Sync.dispatch("late")
    pop_as_a_worker_would(client, keys)
    began = time.monotonic()
    workers.start("default")
    assert handle.result(WITHIN) == "late"
    print(f"put back and run after {time.monotonic() - began:.1f} s")
    assert effects("sync") == [handle.id]
    assert client.hget(keys.rq_job(handle.id), "attempt") == b"1"
    assert client.llen(keys.rq_taken("default")) == 0


def test_wd_between_pop_and_start_a_slow_starter_is_not_run_twice(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    """A worker that took the job sleeps, another is given it, and the first wakes up."""
    slow = workers.start("default")
    eventually(lambda: client.scard(keys.rq_workers) == 1)
    slow.send_signal(signal.SIGSTOP)
    handle = jobs.Sync.dispatch("once")
    time.sleep(1.2)
    if client.llen(keys.rq_queue("default")):  # its block had ended before: pop for it
        pop_as_a_worker_would(client, keys)
    workers.start("default")
    assert handle.result(WITHIN) == "once"
    slow.send_signal(signal.SIGCONT)
    assert jobs.Sync.dispatch("next").result(10) == "next"
    assert effects("sync").count(handle.id) == 1


def test_wd_retry_repeats_side_effects_under_a_key_that_stays(workers: Any, effects: Any) -> None:
    workers.start("default")
    handle = jobs.Mailer.dispatch("after")
    handle.result(10)
    assert effects("mail") == [handle.id]


def test_wd_worker_name_taken_never_happens(workers: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    for _ in range(3):
        process = workers.start("default")
        # a worker that was just killed may have been handed the job with its last breath: it is put back within 20 s
        assert jobs.Sync.dispatch("x").result(30) == "x"
        process.kill()
        process.wait()


@pytest.mark.timeout(120 if SCALE <= 1 else 1200)
def test_wd_two_workers_one_job_each_runs_once(workers: Any, client: redis.Redis, keys: Keys, effects: Any) -> None:
    """Many delayed jobs fall due together, with duplicate ids on the queue, under several workers."""
    count, processes = (100, "4") if SCALE <= 1 else (5000, "8")
    handles = [jobs.Sync.options(delay=1).dispatch(number) for number in range(count)]
    for process in [workers.start("default", "-n", processes)]:
        assert [handle.result(600) for handle in handles] == list(range(count))
        client.rpush(keys.rq_queue("default"), *[handle.id for handle in handles])
        assert jobs.Sync.dispatch("last").result(30) == "last"
        process.terminate()
        assert process.wait(5) == 0
    assert sorted(effects("sync")) == sorted([handle.id for handle in handles] + effects("sync")[-1:])


def test_junk_stops_no_maintenance_and_a_worn_job_ends_failed(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, reason: Any, eventually: Any
) -> None:
    junk: dict[Any, float] = {b"\xff:\xfe": 1, "no-colon": 1, "gone:1": 1, "text:1": 1, "a b:1": 1}
    client.zadd(keys.rq_registry("wip", "default"), junk)
    client.set(keys.rq_job("text"), "no hash")
    client.set(keys.rq_registry("finished", "other"), "no zset")
    client.sadd(keys.rq_queue_workers("default"), b"\xff\xfe")
    late, worn = jobs.Sync.dispatch("late"), jobs.Sync.dispatch("worn")
    client.hset(keys.rq_job(worn.id), "put_backs", 20)
    for _ in range(2):
        pop_as_a_worker_would(client, keys)
    workers.start("default", RQBEAT_APP="hurried:scheduler")
    assert late.result(WITHIN) == "late"
    eventually(lambda: status(worn.id) == "failed", WITHIN)
    assert reason(worn.id).startswith("put back too often")
    eventually(lambda: client.zcard(keys.rq_registry("wip", "default")) == 0)


def test_children_die_with_a_killed_supervisor(workers: Any, effects: Any, eventually: Any) -> None:
    process = workers.start("default", "-n", "2")
    jobs.Slow.dispatch(600)
    run = eventually(lambda: started(effects, "slow"))
    children = [int(pid) for pid in subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True).stdout.split()]  # fmt: skip
    assert len(children) == 2
    os.kill(process.pid, signal.SIGKILL)
    eventually(lambda: not any(is_alive(pid) for pid in [*children, run]), 3.0)


@dataclass(frozen=True)
class Row:
    """One line of the kill table: where who is killed, with how many retries, and what must come of it."""

    point: str
    victim: str
    retries: int
    outcome: str
    effects: int

    @property
    def name(self) -> str:
        return f"{self.point}-{self.victim}-{self.retries}"


FORK = [
    # killed before the start: it runs, once, and no attempt is used up
    *[Row(point, "both", retries, "finished", 1) for point in ("popped", "registered") for retries in (0, 1)],
    *[Row("forked", victim, retries, "finished", 1) for victim in ("horse", "both") for retries in (0, 1)],
    # killed in the run: an attempt that failed
    *[Row("claimed", victim, 0, "failed", 0) for victim in ("horse", "both")],
    *[Row("claimed", victim, 1, "finished", 1) for victim in ("horse", "both")],
    # done, but nobody was told: this is what once-marks are for
    *[Row("returned", victim, 0, "failed", 1) for victim in ("horse", "both")],
    *[Row("returned", victim, 1, "finished", 2) for victim in ("horse", "both")],
    *[Row("saved", victim, retries, "finished", 1) for victim in ("horse", "both") for retries in (0, 1)],
]
POOL = [
    # killed before the start: it runs, once; the parent sees what a child had claimed, and no attempt is used up
    *[Row("popped", victim, retries, "finished", 1) for victim in ("horse", "both") for retries in (0, 1)],
    *[Row("claimed", "horse", retries, "finished", 1) for retries in (0, 1)],
    # from here on as with a horse of its own
    *[row for row in FORK if row.point in {"returned", "saved"} or (row.point, row.victim) == ("claimed", "both")],
]
TABLES = {"fork": FORK, "pool": POOL}


@pytest.mark.fault("F51")
def test_a_kill_while_a_retry_is_written_loses_no_attempt(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, eventually: Any
) -> None:
    """RQ says "scheduled" first, and a kill then leaves the job in no registry. The job here has three attempts."""
    rows = [Row(point, victim, 2, "failed", 3) for point in ("failing", "retrying", "saved")
            for victim in ("horse", "both")]  # fmt: skip
    ids = {row: jobs.Flaky.options(queue=row.name).dispatch().id for row in rows}
    hurried = {"RQBEAT_APP": "hurried:scheduler"}
    for row in rows:
        workers.start(row.name, HURRIED_APP="faulty:scheduler", TEST_POINT=row.point, TEST_VICTIM=row.victim,
                      TEST_ROW=row.name, **hurried)  # fmt: skip
    eventually(lambda: all(client.exists(f"killed:{row.name}") for row in rows), 20.0)
    workers.start(*[row.name for row in rows if row.victim == "both"], **hurried)
    eventually(lambda: [status(ids[row]) for row in rows] == ["failed"] * len(rows), WITHIN)
    assert {row: effects("failing").count(ids[row]) for row in rows} == {row: row.effects for row in rows}
    for row in rows:
        assert client.zcard(keys.rq_registry("scheduled", row.name)) + client.llen(keys.rq_queue(row.name)) == 0


@pytest.mark.fault("F36")
def test_wd_cleanup_too_rare_the_kill_table(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, eventually: Any
) -> None:
    """Every row at once, each on a queue of its own. No row loses a job or leaves a ghost."""
    table = TABLES[workers.mode]
    for row in table:
        workers.start(row.name, RQBEAT_APP="faulty:scheduler", TEST_POINT=row.point, TEST_VICTIM=row.victim,
                      TEST_ROW=row.name)  # fmt: skip
    eventually(lambda: sum(row["cmd"] == "blmove" for row in client.client_list()) == len(table), 60.0)
    ids = {row: (jobs.SyncRetried if row.retries else jobs.Sync).options(queue=row.name).dispatch().id for row in table}
    eventually(lambda: all(client.exists(f"killed:{row.name}") for row in table), 40.0)
    workers.start(*[row.name for row in table if row.victim == "both"])
    began, seconds = time.monotonic(), {}

    def settled() -> bool:
        for row in table:
            if row not in seconds and status(ids[row]) == row.outcome:
                seconds[row] = time.monotonic() - began
        return len(seconds) == len(table)

    eventually(settled, WITHIN)
    for row in table:
        print(f"{row.name:24} {row.outcome:9} {row.effects} effects {seconds[row]:5.1f} s")
    assert {row: effects("sync").count(ids[row]) for row in table} == {row: row.effects for row in table}
    for row in table:
        assert client.llen(keys.rq_taken(row.name)) + client.llen(keys.rq_queue(row.name)) == 0
    eventually(lambda: not any(client.zcard(keys.rq_registry("wip", row.name)) for row in table), 30.0)
    # gr-dead-workers-listed: the dead are off the list once their lease has ended
    eventually(lambda: all(client.exists(key) for key in client.smembers(keys.rq_workers)), WITHIN)
