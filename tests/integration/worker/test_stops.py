"""How workers stop, wait, and end: signals, time-outs, Redis away, exit codes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import pytest
import redis

from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.connection import connect
from shared.redisio.dispatch import RedisOutbox
from shared.redisio.presence import present
from shared.redisio.server import OwnServer
from tests.proxy import Proxy


def is_alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnServer]:
    """A server for one test, to be stopped and started."""
    folder = Path(tempfile.mkdtemp(prefix="rqbeat-"))
    server = OwnServer(folder, options=("--appendonly", "yes"))
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)


def stopped_within(process: Any, seconds: float) -> int:
    began = time.monotonic()
    code: int = process.wait(seconds + 5)
    assert time.monotonic() - began < seconds
    return code


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_dc_python_pid1_an_idle_worker_stops_within_3_s_with_0(
    workers: Any, client: redis.Redis, keys: Keys, eventually: Any, sig: int, processes: str
) -> None:
    process = workers.start("default", "-n", processes)
    eventually(lambda: client.scard(keys.rq_workers) == int(processes))
    process.send_signal(sig)
    assert stopped_within(process, 3.0) == 0
    assert client.scard(keys.rq_workers) == 0
    assert present(client, keys, "worker") == []


@pytest.mark.fault("F41")
def test_dc_stop_grace_a_warm_stop_finishes_the_job_and_takes_no_other(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    process = workers.start("default")
    handle, waiting = jobs.Slow.dispatch(1.5), jobs.Sync.dispatch("later")
    eventually(lambda: effects("slow-started"))
    process.terminate()
    assert stopped_within(process, 5.0) == 0
    assert handle.result() == "slept"
    assert [waiting.id.encode()] == client.lrange(keys.rq_queue("default"), 0, -1)


@pytest.mark.fault("F41")
@pytest.mark.parametrize(("job", "state"), [(jobs.Slow, "failed"), (jobs.SlowRetried, "queued")])
@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_second_signal_ends_at_once_and_the_job_counts_as_cut_off(
    workers: Any, effects: Any, status: Any, reason: Any, eventually: Any, job: Any, state: str, processes: str
) -> None:
    process = workers.start("default", "-n", processes)
    handle = job.dispatch(600)
    run = int(eventually(lambda: effects("slow-started"))[0].partition(":")[2])
    process.terminate()
    time.sleep(1.2)
    process.terminate()
    assert stopped_within(process, 3.0) == 1
    assert not is_alive(run)
    assert (status(handle.id), reason(handle.id)) == (state, "cut off by a cold stop of its worker")


def test_a_burst_ends_when_the_queues_are_empty(workers: Any, client: redis.Redis, keys: Keys) -> None:
    handles = [jobs.Sync.options(queue=f"q{number % 3}").dispatch(number) for number in range(9)]
    assert workers.start("q0", "q1", "q2", "--burst").wait(20) == 0
    assert [handle.result() for handle in handles] == list(range(9))


def test_max_jobs_ends_with_0_while_work_waits(workers: Any, client: redis.Redis, keys: Keys) -> None:
    for number in range(5):
        jobs.Sync.dispatch(number)
    assert workers.start("default", "--max-jobs", "2").wait(20) == 0
    assert client.llen(keys.rq_queue("default")) == 3


def test_with_no_queue_named_a_worker_serves_those_of_the_registered_jobs(workers: Any) -> None:
    workers.start()
    assert jobs.Sync.dispatch("served").result(10) == "served"


@pytest.mark.parametrize(("job", "within"), [(jobs.AsyncSleeper, 3.0), (jobs.WithChild, 3.0), (jobs.Swallowing, 9.0)])
def test_a_time_out_ends_the_run(
    workers: Any, status: Any, reason: Any, effects: Any, eventually: Any, job: Any, within: float
) -> None:
    workers.start("default")
    handle = job.dispatch()
    eventually(lambda: status(handle.id) == "started")
    began = time.monotonic()
    eventually(lambda: status(handle.id) == "failed", within)
    print(f"{job.name}: ended {time.monotonic() - began - 1:.1f} s after its time-out")
    eventually(lambda: "time-out" in reason(handle.id) or "timeout" in reason(handle.id))


@pytest.mark.fault("F42")
def test_to_swallowed_is_killed_within_the_grace(workers: Any, status: Any, reason: Any, eventually: Any) -> None:
    workers.start("default")
    handle = jobs.Swallowing.dispatch()
    eventually(lambda: status(handle.id) == "failed", 9.0)
    eventually(lambda: reason(handle.id) == "killed 5 s after its time-out of 1 s, which it swallowed")


def test_to_grandchildren_end_with_the_run(workers: Any, effects: Any, status: Any, eventually: Any) -> None:
    workers.start("default")
    handle = jobs.WithChild.dispatch()
    child = int(eventually(lambda: effects("child"))[0])
    eventually(lambda: status(handle.id) == "failed")
    eventually(lambda: not is_alive(child), 3.0)


def test_dc_start_order_a_worker_waits_for_redis_says_so_once_and_goes_on(
    workers: Any, own: OwnServer, keys: Keys, eventually: Any
) -> None:
    workers.url = own.url
    process = workers.start("default")
    eventually(lambda: "waiting for Redis at unix://" in workers.log())
    time.sleep(1.5)
    assert (process.poll(), workers.log().count("waiting for Redis")) == (None, 1)
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        assert jobs.Async.dispatch("up").result(15) == "up"


def test_dc_python_pid1_a_worker_that_waits_for_redis_stops_within_3_s_with_0(
    workers: Any, own: OwnServer, eventually: Any
) -> None:
    workers.url = own.url
    for processes in ("1", "2"):
        process = workers.start("default", "-n", processes)
        eventually(lambda: "waiting for Redis" in workers.log())
        process.terminate()
        assert stopped_within(process, 3.0) == 0


def test_dc_python_pid1_an_idle_worker_stops_within_3_s_while_redis_hangs(
    workers: Any, own: OwnServer, keys: Keys, eventually: Any
) -> None:
    own.start()
    workers.url = own.url
    process = workers.start("default")
    with connect(own.url) as client:
        eventually(lambda: client.scard(keys.rq_workers) == 1)
    assert own.pid is not None
    os.kill(own.pid, signal.SIGSTOP)
    process.terminate()
    assert stopped_within(process, 3.0) == 0


def test_redis_restart_lost_registration(workers: Any, own: OwnServer, keys: Keys, eventually: Any) -> None:
    """Redis comes back empty: the worker is listed again, takes jobs, and promotes delayed ones."""
    own.start()
    workers.url = own.url
    process = workers.start("default")
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        assert jobs.Async.dispatch("before").result(10) == "before"
    own.kill()
    eventually(lambda: "waiting for Redis" in workers.log(), 20)
    shutil.rmtree(own.socket.parent / "appendonlydir")
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        began = time.monotonic()
        assert jobs.Async.dispatch("after").result(20) == "after"
        print(f"back to work after {time.monotonic() - began:.1f} s")
        assert client.scard(keys.rq_workers) == 1
        assert jobs.Async.options(delay=1).dispatch("later").result(10) == "later"
    assert process.poll() is None
    assert "Traceback" not in workers.log()


def test_redis_pubsub_lost(workers: Any, own: OwnServer, keys: Keys, eventually: Any) -> None:
    """After a restart of Redis a worker listens again: RQ's command to stop a job is obeyed."""
    from rq.command import send_stop_job_command

    own.start()
    workers.url = own.url
    workers.start("default")
    with connect(own.url) as client:
        eventually(lambda: client.scard(keys.rq_workers) == 1)
    own.kill()
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        handle = jobs.Slow.dispatch(60)
        eventually(lambda: handle.status() == "started", 30)

        def is_stopped() -> bool:
            if handle.status() == "started":
                send_stop_job_command(client, handle.id)
                time.sleep(0.5)
            return handle.status() == "stopped"

        eventually(is_stopped, 15)


@pytest.mark.fault("F50")
def test_redis_dequeue_reply_lost(
    workers: Any, server: OwnServer, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    """The replies of two pops are cut off: each job still runs, once, though none has a retry."""
    proxy = Proxy(server.socket)
    proxy.cut, proxy.every = b"BLMOVE", 2
    workers.url = proxy.url
    workers.start("default")
    for number in range(4):
        jobs.Slow.dispatch(0, f"lost-{number}")
    eventually(lambda: proxy.strikes >= 2, 30)
    proxy.cut = None
    try:
        eventually(lambda: all(effects(f"lost-{number}-ended") for number in range(4)), 80)
    finally:
        proxy.close()
    assert [len(effects(f"lost-{number}-ended")) for number in range(4)] == [1, 1, 1, 1]
    assert client.llen(keys.rq_taken("default")) == 0


def test_redis_short_restart_in_mid_run_leaves_the_run_alone(
    workers: Any, own: OwnServer, keys: Keys, effects: Any, eventually: Any
) -> None:
    own.start()
    workers.url = own.url
    workers.start("default")
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        handle = jobs.Slow.dispatch(6)
        eventually(lambda: client.llen("effects:slow-started"))
    own.stop()
    time.sleep(2.5)
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        assert handle.result(20) == "slept"
        assert client.llen("effects:slow-started") == 1


def test_redis_auth_a_wrong_password_is_told_in_one_line_without_it(workers: Any, own: OwnServer) -> None:
    own.start()
    with connect(own.url) as client:
        client.config_set("requirepass", "right")
    workers.url = f"unix://:wr0ng@{own.socket}"
    assert workers.start("default").wait(10) == 2
    assert "Redis refuses the user name or password" in workers.log()
    assert "wr0ng" not in workers.log()


def test_presence_tells_host_pid_queue_and_state(
    workers: Any, client: redis.Redis, keys: Keys, eventually: Any, effects: Any
) -> None:
    process = workers.start("default")
    (record,) = eventually(lambda: present(client, keys, "worker"))
    assert (record["pid"], record["queue"]) == (str(process.pid), "default")
    for state in ("idle", "busy"):
        eventually(lambda state=state: present(client, keys, "worker")[0]["state"] == state, 9)
        jobs.Slow.dispatch(20)


@pytest.mark.parametrize("busy", [False, True])
def test_a_worker_that_was_given_up_is_on_the_list_again(
    workers: Any, client: redis.Redis, eventually: Any, busy: bool
) -> None:
    workers.start("default", RQBEAT_APP="hurried:scheduler", HURRIED_APP="bench_jobs:scheduler")
    handle = jobs.Slow.dispatch(20) if busy else None
    eventually(lambda: len(client.smembers("rq:workers")) == 1)
    eventually(lambda: handle is None or handle.status() == "started")
    client.delete("rq:workers", "rq:workers:default", *client.smembers("rq:workers"))
    eventually(lambda: len(client.smembers("rq:workers")) == len(client.smembers("rq:workers:default")) == 1)


def test_a_child_that_dies_is_replaced(workers: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    process = workers.start("default", "-n", "2")

    def pids() -> set[int]:
        return {int(record["pid"]) for record in present(client, keys, "worker")}

    eventually(lambda: len(pids()) == 2)
    before = pids()
    os.kill(min(before), signal.SIGKILL)
    eventually(lambda: pids() - before)
    process.terminate()
    assert stopped_within(process, 3.0) == 0


def test_redis_short_restart_at_the_end_of_a_run_does_not_make_a_failure_of_it(
    workers: Any, own: OwnServer, keys: Keys, eventually: Any
) -> None:
    own.start()
    workers.url = own.url
    workers.start("default")
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        handle = jobs.Quiet.options(timeout=60).dispatch(2)
        eventually(lambda: client.hget(keys.rq_job(handle.id), "status") == b"started")
    own.stop()
    time.sleep(8)
    own.start()
    with connect(own.url) as client, using_outbox(RedisOutbox(client, keys)):
        assert handle.result(20) == 1


def test_redis_oom_is_waited_out_and_nothing_is_lost(
    workers: Any, client: redis.Redis, keys: Keys, eventually: Any
) -> None:
    process = workers.start("default")
    assert jobs.Async.dispatch("before").result(10) == "before"
    handle = jobs.Quiet.dispatch(1)
    eventually(lambda: client.hget(keys.rq_job(handle.id), "status") == b"started")
    client.config_set("maxmemory", 1)
    try:
        eventually(lambda: "a run waits for Redis: Redis takes no writes now" in workers.log(), 20)
        time.sleep(1)
    finally:
        client.config_set("maxmemory", 0)
    assert handle.result(20) == 1
    assert jobs.Async.dispatch("after").result(20) == "after"
    assert process.poll() is None


def test_rqs_stop_command_ends_a_run_that_is_then_stopped(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, eventually: Any
) -> None:
    workers.start("default")
    handle = jobs.SlowRetried.dispatch(600)
    run = int(eventually(lambda: effects("slow-started"))[0].partition(":")[2])
    worker = client.hget(keys.rq_job(handle.id), "worker_name")
    assert worker is not None
    client.publish(f"{keys.rq}:pubsub:{worker.decode()}", b"\xff junk")
    client.publish(f"{keys.rq}:pubsub:{worker.decode()}", json.dumps({"command": "stop-job", "job_id": handle.id}))
    eventually(lambda: status(handle.id) == "stopped", 5)
    assert not is_alive(run)
    assert jobs.Sync.dispatch("next").result(10) == "next"


def test_suspended_workers_take_nothing_stay_present_and_stop(
    workers: Any, client: redis.Redis, keys: Keys, eventually: Any
) -> None:
    client.set(f"{keys.rq}:suspended", 1)
    process = workers.start("default")
    eventually(lambda: [record["state"] for record in present(client, keys, "worker")] == ["suspended"])
    waiting = jobs.Sync.dispatch("later")
    time.sleep(1.5)
    assert client.lrange(keys.rq_queue("default"), 0, -1) == [waiting.id.encode()]
    process.terminate()
    assert stopped_within(process, 3.0) == 0


def test_namespaces_never_meet(workers: Any, client: redis.Redis) -> None:
    shop = Keys.for_namespace("shop")
    with using_outbox(RedisOutbox(client, shop)):
        handle = jobs.Async.dispatch("shop")
        workers.start("default", "--burst").wait(20)
        assert handle.status() == "queued"
        workers.start("default", "--burst", "--namespace", "shop").wait(20)
        assert handle.result() == "shop"
    assert all(key.startswith((b"shop:", b"rq", b"effects")) for key in client.scan_iter())


def test_a_prefix_that_comes_too_late_is_told(workers: Any, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import rq\n")
    search = f"{tmp_path}:{workers.python_path}"
    assert workers.start("default", "--namespace", "shop", PYTHONPATH=search).wait(10) == 2
    assert "rq was imported with the key prefix 'rq'" in workers.log()


@pytest.mark.parametrize(
    ("args", "environ", "words"),
    [
        (["a:b"], {}, "queue: RQ builds its keys with ':'"),
        ([], {"RQBEAT_APP": "nowhere:scheduler"}, "there is no module 'nowhere'"),
        ([], {"RQBEAT_APP": ""}, "no app given"),
        ([], {"RQBEAT_REDIS_URL": "http://x"}, "Redis URL 'http://x'"),
        ([], {"RQBEAT_NAMESPACE": "a b"}, "namespace: "),
        (["--processes", "0"], {}, "Invalid value for '-n'"),
    ],
)
def test_wrong_settings_are_one_line_and_exit_2(
    workers: Any, args: list[str], environ: dict[str, str], words: str
) -> None:
    assert workers.start(*args, **environ).wait(10) == 2
    assert words in workers.log()
    assert "Traceback" not in workers.log()


def test_one_of_several_workers_told_of_a_wrong_setting_ends_them_all(workers: Any, own: OwnServer) -> None:
    own.start()
    with connect(own.url) as client:
        client.config_set("maxmemory-policy", "allkeys-lru")
    workers.url = own.url
    assert workers.start("default", "-n", "3").wait(10) == 2
    assert "Redis evicts keys" in workers.log()


def test_dc_python_pid1_a_worker_that_loads_its_app_stops_within_3_s_with_0(workers: Any, tmp_path: Path) -> None:
    (tmp_path / "slow_app.py").write_text("import time\ntime.sleep(60)\nscheduler = 1\n")
    process = workers.start("default", RQBEAT_APP="slow_app:scheduler")
    time.sleep(1.5)
    process.terminate()
    assert stopped_within(process, 3.0) == 0
