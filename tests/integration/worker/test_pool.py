"""What a pool has to itself: RQ reads its records as its own, few commands, children that come and go."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import pytest
import redis
from rq import Queue, Worker
from rq.job import JobStatus
from rq.registry import FinishedJobRegistry, StartedJobRegistry

from shared.keys import Keys
from shared.redisio.scripts import source
from shared.redisio.server import OwnServer
from tests.proxy import Proxy
from worker.guard import GuardedJob, PayloadSerializer

pytestmark = pytest.mark.parametrize("workers", ["pool"], indirect=True)


@pytest.fixture
def pool(workers: Any) -> Any:
    return workers


def fetched(client: redis.Redis, job_id: str) -> GuardedJob:
    return GuardedJob.fetch(job_id, connection=client, serializer=PayloadSerializer)


def the_queue(client: redis.Redis) -> Queue:
    return Queue("default", connection=client, job_class=GuardedJob, serializer=PayloadSerializer)


def hash_of(script: str) -> bytes:
    """What stands for a script in a call of it."""
    return hashlib.sha1(source(script).encode(), usedforsecurity=False).hexdigest().encode()


def of_pool(pid: int) -> set[int]:
    """The children of a process."""
    return {int(found) for found in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def test_rq_reads_a_finished_job_as_its_own(pool: Any, client: redis.Redis, keys: Keys) -> None:
    handle = jobs.Sync.dispatch({"a": 1})
    pool.start("default", "--burst").wait(20)
    job, queue = fetched(client, handle.id), the_queue(client)
    result = job.latest_result()
    assert (job.get_status(), job.return_value()) == (JobStatus.FINISHED, {"a": 1})
    assert result is not None
    assert (result.type, result.return_value) == (result.Type.SUCCESSFUL, {"a": 1})
    assert job.started_at is not None
    assert job.ended_at is not None
    assert job.enqueued_at is not None
    assert job.enqueued_at <= job.started_at <= job.ended_at
    assert result.execution_started_at is not None
    assert abs((result.execution_started_at - job.started_at).total_seconds()) < 0.01
    assert result.worker_name == job.worker_name
    assert FinishedJobRegistry(queue=queue).get_job_ids(cleanup=False) == [handle.id]
    assert StartedJobRegistry(queue=queue).get_job_ids(cleanup=False) == []
    assert 0 < client.ttl(keys.rq_job(handle.id)) <= 500
    assert 0 < client.ttl(keys.rq_results(handle.id)) <= 500
    assert list(client.scan_iter(f"{keys.rq}:execution*")) == []
    assert client.zcard(keys.live_prefix + "default") <= 1


def test_rq_sees_a_run_while_it_lasts(pool: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    pool.start("default")
    handle = jobs.Slow.dispatch(3)
    job = fetched(client, handle.id)
    (execution,) = eventually(job.get_executions, 5)
    assert StartedJobRegistry(queue=the_queue(client)).get_job_ids(cleanup=False) == [handle.id]
    (worker,) = Worker.all(connection=client, job_class=GuardedJob, serializer=PayloadSerializer)
    assert worker.get_state() == "busy"
    assert worker.get_current_job_id() == handle.id
    assert (worker.name, worker.name) == (execution.worker_name, fetched(client, handle.id).worker_name)
    assert handle.result(10) == "slept"
    assert job.get_executions() == []
    assert list(client.scan_iter(f"{keys.rq}:execution*")) == []
    eventually(lambda: Worker.all(connection=client)[0].get_state() == "idle", 5)


def test_rq_counts_the_jobs_of_a_pool(pool: Any, client: redis.Redis, eventually: Any) -> None:
    pool.start("default")
    for _ in range(3):
        jobs.Sync.dispatch()
    jobs.Failing.dispatch()
    jobs.Slow.dispatch(0.2).result(10)

    def counts() -> tuple[int, int]:
        (worker,) = Worker.all(connection=client)
        return worker.successful_job_count, worker.failed_job_count

    eventually(lambda: counts() == (4, 1), 12)
    (worker,) = Worker.all(connection=client)
    assert 0.2 <= worker.total_working_time < 5


def test_a_job_costs_at_most_12_commands(pool: Any, client: redis.Redis, keys: Keys) -> None:
    """Those that scripts run are counted as well, by the server."""
    jobs.Async.dispatch_many([((number,), {}) for number in range(300)])
    pool.start("default", "--max-jobs", "1").wait(20)
    client.config_resetstat()
    pool.start("default", "--burst").wait(30)
    calls = sum(row["calls"] for row in client.info("commandstats").values())
    assert client.zcard(keys.rq_registry("finished", "default")) == 300
    assert calls < 12 * 299 + 150  # what a worker does beside jobs, from its birth to its death


def test_first_in_first_out_and_at_front(pool: Any, effects: Any) -> None:
    handles = [jobs.Sync.dispatch(number) for number in range(3)]
    urgent = jobs.Sync.options(at_front=True).dispatch()
    pool.start("default", "--burst").wait(20)
    assert effects("sync") == [urgent.id, *(handle.id for handle in handles)]


def test_a_child_runs_job_after_job_and_leaves_after_its_number(pool: Any, effects: Any) -> None:
    for _ in range(7):
        jobs.Slow.dispatch(0)
    pool.start("default", "--burst", "--max-jobs-per-child", "3").wait(20)
    pids = [text.partition(":")[2] for text in effects("slow-started")]
    assert [pids.count(pid) for pid in dict.fromkeys(pids)] == [3, 3, 1]


def test_programs_that_a_job_leaves_behind_end_with_their_child(
    pool: Any, effects: Any, eventually: Any, client: redis.Redis
) -> None:
    process = pool.start("default")
    handle = jobs.LeavingBehind.dispatch()
    handle.result(10)
    pids = [int(pid) for pid in effects("behind")]
    assert len(pids) == 1
    eventually(lambda: not Path(f"/proc/{pids[0]}").exists(), 3)
    assert jobs.Sync.dispatch("next").result(10) == "next"
    assert process.poll() is None


def test_a_child_killed_while_idle_is_replaced(pool: Any, client: redis.Redis, eventually: Any) -> None:
    process = pool.start("default")
    (child,) = eventually(lambda: of_pool(process.pid), 10)
    os.kill(child, signal.SIGKILL)
    assert jobs.Sync.dispatch("next").result(10) == "next"
    assert of_pool(process.pid) != {child}


def test_a_command_to_stop_another_job_leaves_the_run_alone(
    pool: Any, client: redis.Redis, keys: Keys, eventually: Any, status: Any
) -> None:
    pool.start("default")
    handle = jobs.Slow.dispatch(2)
    eventually(lambda: status(handle.id) == "started")
    name = client.hget(keys.rq_job(handle.id), "worker_name")
    assert name is not None
    for job_id in ("other", handle.id + "x"):
        client.publish(keys.rq_channel_prefix + name.decode(), json.dumps({"command": "stop-job", "job_id": job_id}))
    assert handle.result(10) == "slept"


def test_a_run_is_stopped_by_its_execution(
    pool: Any, client: redis.Redis, effects: Any, eventually: Any, status: Any
) -> None:
    from rq.command import send_stop_execution_command

    pool.start("default")
    handle = jobs.Slow.dispatch(600)
    (execution,) = eventually(fetched(client, handle.id).get_executions, 5)
    send_stop_execution_command(client, handle.id, execution.id)
    eventually(lambda: status(handle.id) == "stopped", 5)
    assert jobs.Sync.dispatch("next").result(10) == "next"


def test_a_run_that_holds_the_interpreter_is_killed_by_the_parent(
    pool: Any, status: Any, reason: Any, eventually: Any
) -> None:
    pool.start("default")
    handle = jobs.Deaf.dispatch()
    eventually(lambda: status(handle.id) == "failed", 15)
    eventually(lambda: "after its time-out of 1 s, which it swallowed" in reason(handle.id))
    assert jobs.Sync.dispatch("next").result(10) == "next"


def test_replies_that_are_lost_between_two_runs(
    pool: Any, server: OwnServer, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    """Every third reply of the script that ends one run and begins the next is cut off: each job runs once."""
    proxy = Proxy(server.socket)
    proxy.cut, proxy.every = hash_of("run_next"), 3
    pool.url = proxy.url
    handles = [jobs.Sync.dispatch(number) for number in range(12)]
    pool.start("default")
    try:
        assert [handle.result(60) for handle in handles] == list(range(12))
        assert proxy.strikes >= 2
    finally:
        proxy.close()
    assert sorted(effects("sync")) == sorted(handle.id for handle in handles)
    assert {client.hget(keys.rq_job(handle.id), "attempt") for handle in handles} == {b"1"}
    assert client.zcard(keys.rq_registry("wip", "default")) == 0


def test_a_run_that_was_given_up_writes_no_end(
    pool: Any, client: redis.Redis, keys: Keys, eventually: Any, status: Any
) -> None:
    """Somebody took its lease away and failed it while it slept: the job keeps that end."""
    pool.start("default")
    handle = jobs.Quiet.dispatch(1.5)
    eventually(lambda: status(handle.id) == "started")
    client.delete(keys.rq_registry("wip", "default"))
    client.hset(keys.rq_job(handle.id), "status", "failed")
    eventually(lambda: "returned after its run was given up" in pool.log(), 10)
    assert status(handle.id) == "failed"
    assert client.zscore(keys.rq_registry("finished", "default"), handle.id) is None
    assert client.xlen(keys.rq_results(handle.id)) == 0


def test_a_job_deleted_while_it_runs_stays_deleted(pool: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    pool.start("default")
    handle = jobs.Quiet.dispatch(1)
    eventually(lambda: client.hget(keys.rq_job(handle.id), "status") == b"started")
    client.delete(keys.rq_job(handle.id))
    assert jobs.Sync.dispatch("next").result(10) == "next"
    assert client.exists(keys.rq_job(handle.id), keys.rq_results(handle.id)) == 0
    assert client.zscore(keys.rq_registry("finished", "default"), handle.id) is None


def test_a_requeued_job_that_finishes_leaves_no_mark_of_its_failure(
    pool: Any, client: redis.Redis, keys: Keys, eventually: Any, status: Any
) -> None:
    pool.start("default")
    handle = jobs.Mailer.dispatch("raise")
    assert handle.result(10) == "attempt 2"
    assert client.hexists(keys.rq_job(handle.id), "last_error") is False


def test_a_suspended_pool_takes_nothing_and_goes_on_when_resumed(pool: Any, client: redis.Redis, keys: Keys) -> None:
    pool.start("default")
    assert jobs.Sync.dispatch("before").result(10) == "before"
    client.set(f"{keys.rq}:suspended", 1)
    time.sleep(2.5)
    handle = jobs.Sync.dispatch("after")
    with pytest.raises(TimeoutError):
        handle.result(1)
    client.delete(f"{keys.rq}:suspended")
    assert handle.result(10) == "after"


def test_jobs_per_child_are_for_pools_alone(pool: Any) -> None:
    pool.mode = "fork"
    assert pool.start("default", "--max-jobs-per-child", "3").wait(10) == 2
    assert "--max-jobs-per-child needs --mode pool" in pool.log()


def test_children_killed_at_random_lose_nothing_and_repeat_no_marked_effect(
    pool: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, reason: Any, eventually: Any
) -> None:
    rng = random.Random(7)  # noqa: S311 - a test repeats itself
    process = pool.start("default", "--max-jobs-per-child", "200")
    handles = jobs.MarkedOften.dispatch_many([((), {})] * 1500)
    kills = 0
    while client.llen(keys.rq_queue("default")) > 50:
        for child in of_pool(process.pid):
            os.kill(child, signal.SIGKILL)
            kills += 1
        time.sleep(rng.uniform(0.05, 0.4))
    eventually(lambda: {status(handle.id) for handle in handles} <= {"finished", "failed"}, 90)
    mails = Counter(effects("mail"))
    failed = [handle.id for handle in handles if status(handle.id) == "failed"]
    print(f"{kills} kills, {len(effects('marked'))} runs, {len(failed)} in doubt")
    assert kills >= 3
    assert max(mails.values()) == 1
    assert {handle.id for handle in handles} - set(failed) <= set(mails)
    assert all("cut off inside the block" in reason(job_id) for job_id in failed)
    assert client.llen(keys.rq_taken("default")) + client.zcard(keys.rq_registry("wip", "default")) == 0


def test_a_job_that_kills_its_child_counts_towards_max_jobs(pool: Any, effects: Any, client: redis.Redis) -> None:
    for _ in range(2):
        jobs.Leaving.dispatch()
    jobs.Sync.dispatch()
    assert pool.start("default", "--max-jobs", "2").wait(20) == 0
    assert effects("sync") == []


def test_an_idle_child_that_hangs_is_replaced(pool: Any, client: redis.Redis, eventually: Any) -> None:
    process = pool.start("default")
    eventually(lambda: [row for row in client.client_list() if row["cmd"] == "blmove"])
    (child,) = of_pool(process.pid)
    os.kill(child, signal.SIGSTOP)
    eventually(lambda: of_pool(process.pid) not in ({child}, set()), 25)
    assert "idle and silent" in pool.log()
    assert jobs.Sync.dispatch("next").result(10) == "next"
