"""Beside plain RQ: its jobs on our queues, its tools on our jobs, and its habit of ending well when all is not."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import hard_jobs as jobs
import pytest
import redis

from shared.keys import Keys

APP = {"RQBEAT_APP": "hard_jobs:scheduler"}


def test_a_plain_rq_job_is_refused_and_ours_behind_it_runs(
    workers: Any, client: redis.Redis, status: Any, reason: Any
) -> None:
    from rq import Callback, Queue, Retry

    queue = Queue("default", connection=client)
    plain = [
        queue.enqueue(math.sqrt, 4),
        queue.enqueue("os.getcwd", retry=Retry(max=3), on_failure=Callback("os.getcwd")),
        queue.enqueue(print, "x", meta={"of": "mine"}, description="a print", result_ttl=-1),
    ]
    ours = jobs.Sync.dispatch("ours")
    assert workers.start("default", "--burst", **APP).wait(20) == 0
    assert ours.result() == "ours"
    assert [status(job.id) for job in plain] == ["failed"] * 3
    assert all("is no payload of ours" in reason(job.id) for job in plain)


def test_poison_bad_deploy_a_requeue_after_the_fix_runs_all(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, reason: Any
) -> None:
    from rq import Queue

    handles = [jobs.Punctual.dispatch() for _ in range(20)]
    assert workers.start("default", "--burst").wait(30) == 0  # bench_jobs alone: it knows no such job
    assert {status(handle.id) for handle in handles} == {"failed"}
    assert {reason(handle.id) for handle in handles} == {"no job is registered as 'punctual'"}
    assert client.zcard(keys.rq_registry("scheduled", "default")) == 0
    registry = Queue("default", connection=client).failed_job_registry
    for job_id in registry.get_job_ids():
        registry.requeue(job_id)
    assert workers.start("default", "--burst", **APP).wait(30) == 0
    ran = {entry.split()[0] for entry in map(bytes.decode, client.lrange("effects:punctual", 0, -1))}
    assert ran == {handle.id for handle in handles}


def rq(*arguments: str) -> str:
    """What RQ's own command says."""
    command = [sys.executable, "-m", "rq.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout


def test_rqs_commands_count_and_requeue_our_jobs(workers: Any, redis_url: str, status: Any) -> None:
    failed, fine = jobs.Failing.dispatch(), jobs.Sync.dispatch(1)
    workers.start("default", "--burst", **APP).wait(20)
    assert (status(failed.id), fine.status()) == ("failed", "finished")
    assert "default 0" in " ".join(rq("info", "--url", redis_url, "--raw").split())
    serializer = "worker.guard.PayloadSerializer"
    rq("requeue", "--url", redis_url, "--queue", "default", "--serializer", serializer, failed.id)
    assert status(failed.id) == "queued"


HURRIED = {"RQBEAT_APP": "hurried:scheduler", "HURRIED_APP": "forkless:scheduler"}


def test_poison_crash_exit_zero_a_refused_fork_is_waited_out(workers: Any, client: redis.Redis, keys: Keys) -> None:
    handle = jobs.Sync.dispatch("ran")
    process = workers.start("default", TEST_WRONG="fork", **HURRIED)
    assert handle.result(30) == "ran"
    assert "the system refuses a new process" in workers.log()
    assert (process.poll(), client.llen(keys.rq_taken("default"))) == (None, 0)


@pytest.mark.parametrize("workers", ["fork"], indirect=True)  # another mode has other errors
def test_poison_crash_exit_zero_an_error_of_its_own_ends_a_worker_with_1(
    workers: Any, client: redis.Redis, keys: Keys
) -> None:
    """The next one, which a process manager starts after any code but 0, finds the job."""
    handle = jobs.Sync.dispatch("ran")
    assert workers.start("default", TEST_WRONG="own", **HURRIED).wait(20) == 1
    workers.start("default", TEST_WRONG="own", **HURRIED)
    assert handle.result(30) == "ran"
    assert client.llen(keys.rq_taken("default")) == 0
