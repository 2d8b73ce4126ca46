"""Workers with a key run what was signed by it for this very job, and nothing else."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import pytest
import redis

from scheduler.handfire import HandFire
from scheduler.schedule import build
from scheduler.triggers import IntervalTrigger
from scheduler.wiring import RunningBeat
from shared.clock import SystemClock
from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from shared.settings import Settings
from shared.signature import Keyring

KEY, OLD = "k" * 32, "o" * 32


def send(client: redis.Redis, keys: Keys, key: str, value: str) -> str:
    with using_outbox(RedisOutbox(client, keys, keyring=Keyring.parse(key))):
        return jobs.SyncRetried.dispatch(value).id


def copy(client: redis.Redis, keys: Keys, job_id: str, other: str, **changes: Any) -> str:
    """Enqueue what a job was sent with under another id, or changed."""
    record = client.hgetall(keys.rq_job(job_id))
    client.hset(keys.rq_job(other), mapping={**record, **{name.encode(): value for name, value in changes.items()}})
    client.rpush(keys.rq_queue("default"), other)
    return other


@pytest.mark.fault("F48")
def test_a_wrong_absent_or_old_signature_or_a_replay_is_refused_and_counted(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, reason: Callable[[str], str], effects: Any
) -> None:
    good = send(client, keys, KEY, "good")
    data = client.hget(keys.rq_job(good), "data")
    assert isinstance(data, bytes)
    bad = [
        send(client, keys, "", "absent"),
        send(client, keys, OLD, "old"),
        copy(client, keys, good, "replayed"),
        copy(client, keys, good, "forged", data=data.replace(b"good", b"evil")),
    ]
    assert workers.start("default", "--burst", RQBEAT_PAYLOAD_KEY=KEY).wait(60) == 0, workers.log()
    assert effects("sync") == [good]
    assert [status(job_id) for job_id in bad] == ["failed"] * 4
    assert all("signature" in reason(job_id) for job_id in bad)
    failed = {entry.decode() for entry in client.zrange(keys.rq_registry("failed", "default"), 0, -1)}
    assert failed == set(bad)
    assert [client.hget(keys.rq_job(job_id), "attempt") for job_id in bad] == [b"1"] * 4
    assert KEY not in workers.log()


@pytest.mark.fault("F48")
def test_keys_are_rotated_without_a_job_refused(workers: Any, client: redis.Redis, keys: Keys, effects: Any) -> None:
    """First workers know the new key as well, then senders sign with it, then the old one goes."""
    ids = [send(client, keys, ring, ring) for ring in (OLD, f"{KEY},{OLD}", KEY)]
    assert workers.start("default", "--burst", RQBEAT_PAYLOAD_KEY=f"{KEY},{OLD}").wait(60) == 0, workers.log()
    assert effects("sync") == ids


def test_retries_and_requeues_keep_the_signature(
    workers: Any, client: redis.Redis, keys: Keys, redis_url: str, effects: Any, reason: Any, eventually: Any
) -> None:
    with using_outbox(RedisOutbox(client, keys, keyring=Keyring.parse(KEY))):
        handle = jobs.Flaky.options(queue="one").dispatch()
    process = workers.start("one", RQBEAT_PAYLOAD_KEY=KEY)
    eventually(lambda: handle.status() == "failed", 30)
    process.terminate()
    process.wait(20)
    rq = [str(Path(sys.executable).with_name("rq")), "requeue", "--url", redis_url, "--queue", "one", handle.id]
    subprocess.run(rq, check=True, capture_output=True)
    assert workers.start("one", "--burst", RQBEAT_PAYLOAD_KEY=KEY).wait(60) == 0, workers.log()
    assert (len(effects("failing")), reason(handle.id)) == (4, "ValueError: no luck")


def test_a_worker_without_a_key_runs_what_is_signed(workers: Any, client: redis.Redis, keys: Keys) -> None:
    send(client, keys, KEY, "x")
    assert workers.start("default", "--burst").wait(60) == 0, workers.log()
    assert client.zcard(keys.rq_registry("failed", "default")) == 0


def test_what_a_job_dispatches_and_a_beat_fires_is_signed(
    workers: Any, client: redis.Redis, keys: Keys, redis_url: str, eventually: Any, effects: Any
) -> None:
    """By schedule, catch-up, hand and backfill; a buffered one after its schedule has changed meanwhile."""
    schedule = build(jobs.Sync, IntervalTrigger(0.5), {"id": "s", "args": ["a"], "overlap": "buffer"})
    settings = Settings(url=redis_url, payload_key=KEY)
    beat = RunningBeat.start(settings, [schedule], SystemClock())
    try:
        eventually(lambda: client.exists(keys.waiting_prefix + "s"))
        HandFire(client, keys, SystemClock(), "tester", settings.keyring).now("s")
    finally:
        beat.stop()
    changed = build(jobs.Sync, IntervalTrigger(3600), {"id": "s", "args": ["b"], "overlap": "buffer"})
    workers.start("default", RQBEAT_PAYLOAD_KEY=KEY)
    beat = RunningBeat.start(settings, [changed], SystemClock())
    try:
        eventually(lambda: not client.exists(keys.waiting_prefix + "s"))
        eventually(lambda: len(effects("sync")) == 3)
    finally:
        beat.stop()
    time.sleep(0.1)
    assert client.zcard(keys.rq_registry("failed", "default")) == 0
