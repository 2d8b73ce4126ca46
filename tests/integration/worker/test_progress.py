"""What outlives an attempt: checkpoints, and that the next attempt comes, when it is due."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hard_jobs as jobs
import pytest
import redis

from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.connection import connect
from shared.redisio.dispatch import RedisOutbox
from shared.redisio.server import OwnServer
from tests.proxy import Proxy

APP = {"RQBEAT_APP": "hard_jobs:scheduler"}
LATE_IN_PEACE = 1.5
"""A retry is due at a whole second; it is looked for each second, and a worker has to fork."""
LATE_AFTER_A_KILL = 5.0


@pytest.mark.parametrize(
    ("kill_at", "pages"),
    [("before", "1 2 2 3"), ("inside", "1 2 3"), ("after", "1 2 3"), ("nowhere", "1 2 3")],
)
def test_a_checkpoint_is_what_was_saved_last(workers: Any, effects: Any, kill_at: str, pages: str) -> None:
    """Killed before Redis had it, the page is done again; once Redis had it, never."""
    workers.start("default", **APP)
    attempt = 1 if kill_at == "nowhere" else 2
    assert [3, attempt] == jobs.Saving.dispatch(kill_at).result(15)
    assert pages.split() == effects("page")


def test_an_attempt_knows_its_number_and_what_ended_the_one_before(workers: Any) -> None:
    workers.start("default", **APP)
    handle = jobs.Telling.dispatch()
    assert handle.result(10) == [2, "ConnectionError: again", handle.id]


def test_a_run_that_is_cut_off_goes_on_from_its_checkpoint(workers: Any, effects: Any, eventually: Any) -> None:
    """dc-stop-grace: a second signal ends the run; another worker takes it up where it was."""
    process = workers.start("default", **APP)
    handle = jobs.Resumed.dispatch()
    eventually(lambda: effects("saved"))
    process.terminate()
    time.sleep(1.1)
    process.terminate()
    assert process.wait(5) == 1
    workers.start("default", **APP)
    assert handle.result(15) == [2, 7]


def test_wd_recovery_by_own_id_only(workers: Any, effects: Any, keys: Keys, client: redis.Redis) -> None:
    """Killed in mid-run with its worker, a job is recovered by one that has another name, and never heard of it."""
    hurried = {"RQBEAT_APP": "hurried:scheduler"}
    first = workers.start("default", **hurried)
    handle = jobs.Resumed.dispatch()
    while not effects("saved"):
        time.sleep(0.02)
    first.kill()
    workers.start("default", **hurried)
    assert handle.result(30) == [2, 7]
    assert client.zcard(keys.rq_registry("wip", "default")) == 0


def late(client: redis.Redis, count: int, seconds: float = 20) -> list[float]:
    """How late the second attempts of so many jobs were, once all have been."""
    ends = time.monotonic() + seconds
    while client.llen("effects:punctual") < 2 * count:
        assert time.monotonic() < ends, f"{client.llen('effects:punctual')} of {2 * count} attempts"
        time.sleep(0.05)
    times: dict[str, list[float]] = {}
    for entry in client.lrange("effects:punctual", 0, -1):
        key, at = entry.decode().split()
        times.setdefault(key, []).append(float(at))
    return [second - first - 1 for first, second in times.values()]


@pytest.fixture
def own() -> Iterator[OwnServer]:
    """A server that keeps what it acknowledged, to be killed."""
    folder = Path(tempfile.mkdtemp(prefix="rqbeat-"))
    server = OwnServer(folder, options=("--appendonly", "yes", "--appendfsync", "always"))
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def test_wd_delayed_retry_never_is_late_without_a_beat(workers: Any, client: redis.Redis) -> None:
    """One worker, idle: it promotes each second."""
    workers.start("default", **APP)
    jobs.Punctual.dispatch_many([((), {})] * 3)
    lateness = late(client, 3)
    print(f"late by {max(lateness):.2f} s")
    assert max(lateness) <= LATE_IN_PEACE + 1  # the due time is rounded up to a second


def test_wd_retry_scheduler_dead(workers: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    """The worker that promotes is killed with twenty retries pending: another takes over."""
    started = [workers.start("default", **APP) for _ in range(3)]
    jobs.Punctual.dispatch_many([((), {})] * 20)
    eventually(lambda: client.zcard(keys.rq_registry("scheduled", "default")) == 20)
    promoter = eventually(lambda: promoting(client, keys))
    assert promoter in {process.pid for process in started}
    os.kill(promoter, signal.SIGKILL)
    lateness = late(client, 20)
    print(f"late by {max(lateness):.2f} s")
    assert max(lateness) <= LATE_AFTER_A_KILL


def promoting(client: redis.Redis, keys: Keys) -> int:
    """The process id of whoever promotes."""
    found = client.get(keys.promoted)
    return int(found.split(b":")[1]) if isinstance(found, bytes) else 0


def test_redis_short_restart_at_the_end_of_a_failed_attempt_uses_no_retry_up(
    workers: Any, own: OwnServer, keys: Keys, eventually: Any
) -> None:
    workers.url = own.url
    workers.start("default", **APP)
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        handle = jobs.Unlucky.dispatch(1)
        eventually(lambda: handle.status() == "started")
    own.stop()
    eventually(lambda: "a run waits for Redis" in workers.log())
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        assert handle.result(15) == 2


def test_redis_gone_when_a_retry_was_just_written_uses_no_retry_up(
    workers: Any, server: OwnServer, client: redis.Redis, keys: Keys, eventually: Any
) -> None:
    """The reply is lost, and so is the question that follows whether it was written."""
    proxy = Proxy(server.socket)
    workers.url = proxy.url
    workers.start("default", **APP)
    handle = jobs.Unlucky.dispatch(1)
    eventually(lambda: handle.status() == "started")
    proxy.cut, proxy.precut = keys.rq_registry("scheduled", "default").encode(), b"HMGET"
    eventually(lambda: proxy.strikes >= 2)
    proxy.cut = proxy.precut = None
    try:
        assert handle.result(15) == 2
        assert client.hget(keys.rq_job(handle.id), "attempt") == b"2"
    finally:
        proxy.close()


def test_delayed_retries_survive_a_restart_of_redis(workers: Any, own: OwnServer, keys: Keys, eventually: Any) -> None:
    workers.url = own.url
    workers.start("default", **APP)
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        jobs.Punctual.dispatch_many([((), {})] * 3)
        eventually(lambda: client.zcard(keys.rq_registry("scheduled", "default")) == 3)
    own.kill()
    own.start()
    began = time.monotonic()
    with connect(own.url) as client:
        late(client, 3)
    print(f"all ran {time.monotonic() - began:.2f} s after the restart")
    assert time.monotonic() - began <= 10
