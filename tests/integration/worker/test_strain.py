"""Much at once: poison by the thousand, runs that outlast their leases, too little memory, a limit that all share.

`RQTEST_SCALE` above 1 has the long forms, of minutes each, with the figures as shipped.
"""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hard_jobs as jobs
import pytest
import redis

from shared.keys import Keys
from shared.options import JobOptions
from shared.redisio.records import job_fields
from tests.chaos.arena import SCALE
from tests.integration.worker.test_refusals import BYTES, CODE, GOOD, JUNK, NOW, canary

pytestmark = pytest.mark.timeout(120 if SCALE <= 1 else 1800)

APP = {"RQBEAT_APP": "hard_jobs:scheduler"}
IS_LONG = SCALE > 1
MIB = 2**20
MEMORY_LIMITS = (
    (Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
    (Path("/sys/fs/cgroup"), "memory.max"),
)
"""Where groups of processes are made, and what limits them: the first and the second version of cgroups."""
KINDS = 30
HEAVY = ("huge-field", "many-fields")
"""Kinds that cost the server more than the worker; one of each is tried elsewhere."""


def resident(pid: int) -> float:
    """The memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / MIB


def poison(folder: Path) -> list[dict[str, Any]]:
    """The fields of thirty kinds of records that must not run."""
    code = {name: make(canary(folder)) for name, make in CODE.items()}
    junk = {name: fields for name, fields in JUNK.items() if name not in HEAVY}
    kinds = {**code, **junk, **{name: {"data": data} for name, data in BYTES.items()}}
    assert len(kinds) >= KINDS
    return list(kinds.values())[:KINDS]


def push(client: redis.Redis, keys: Keys, prefix: str, records: list[dict[str, Any]]) -> list[str]:
    """Enqueue records as they are; their ids."""
    sound = dict(zip(*[iter(job_fields("sync", JobOptions(), None))] * 2, strict=True))
    ids = [f"{prefix}-{number}" for number in range(len(records))]
    with client.pipeline(transaction=False) as pipe:
        for job_id, fields in zip(ids, records, strict=True):
            record = {"created_at": NOW, "enqueued_at": NOW, "status": "queued", "data": GOOD, **sound, **fields}
            pipe.hset(keys.rq_job(job_id), mapping={name: value for name, value in record.items() if value is not None})
        pipe.sadd(keys.rq_queues, keys.rq_queue("default"))
        pipe.execute()
    return ids


@pytest.mark.fault("F45")
def test_poison_bytes_by_the_thousand(
    workers: Any, client: redis.Redis, keys: Keys, tmp_path: Path, effects: Any, eventually: Any
) -> None:
    """Every good job finishes, every bad one has its reason, the worker stays what it was and no larger."""
    count = 10_000 if IS_LONG else 300
    kinds = poison(tmp_path)
    bad = push(client, keys, "bad", [kinds[number % KINDS] for number in range(count)])
    good = push(client, keys, "good", [{}] * count)
    client.rpush(keys.rq_queue("default"), *[job_id for pair in zip(bad, good, strict=True) for job_id in pair])
    process = workers.start("default", **APP)
    began, within = time.monotonic(), count / 10 + 30
    eventually(lambda: client.llen("effects:sync") >= count / 10, within)
    early = resident(process.pid)
    eventually(lambda: client.zcard(keys.rq_registry("finished", "default")) == count, within)
    print(f"{count} good and {count} bad in {time.monotonic() - began:.1f} s; {early:.1f} MiB after a tenth, "
          f"{resident(process.pid):.1f} MiB at the end")  # fmt: skip
    assert resident(process.pid) - early <= 4
    assert sorted(effects("sync")) == sorted(good)
    with client.pipeline(transaction=False) as pipe:
        for job_id in bad:
            pipe.hmget(keys.rq_job(job_id), "status", "last_error")
        rows = pipe.execute()
    assert [status for status, _ in rows] == [b"failed"] * count
    assert all(reason for _, reason in rows)
    assert client.zcard(keys.rq_registry("failed", "default")) == count
    assert client.llen(keys.rq_taken("default")) == 0
    assert (process.poll(), canary(tmp_path).exists()) == (None, False)


@pytest.mark.fault("F43")
def test_a_run_twice_as_long_as_its_lease_is_left_alone(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    """X == E: nobody takes a run for abandoned while its worker says that it lives."""
    count, seconds, processes = (100, 60, 25) if IS_LONG else (4, 6, 4)
    environ = APP if IS_LONG else {"RQBEAT_APP": "hurried:scheduler"}
    handles = [jobs.Slept.dispatch(seconds) for _ in range(count)]
    process = workers.start("default", "-n", str(processes), **environ)
    eventually(lambda: client.zcard(keys.rq_registry("finished", "default")) == count, seconds * count / processes + 60)
    assert sorted(effects("slept")) == sorted(handle.id for handle in handles)
    assert client.zcard(keys.rq_registry("wip", "default")) == 0
    assert (process.poll(), workers.log().count("abandoned")) == (None, 0)


@pytest.fixture
def little_memory() -> Iterator[Path]:
    """A group of processes that may use 96 MiB together."""
    root, limit = MEMORY_LIMITS[0] if MEMORY_LIMITS[0][0].exists() else MEMORY_LIMITS[1]
    group = root / f"rqbeat-{os.getpid()}"
    try:
        group.mkdir()
        (group / limit).write_text(str(96 * MIB))
    except OSError as error:
        pytest.skip(f"memory can't be limited here: {error}")
    yield group
    ends = time.monotonic() + 10
    while (group / "cgroup.procs").read_text() and time.monotonic() < ends:
        time.sleep(0.02)
    group.rmdir()


@pytest.mark.fault("F39")
def test_poison_oom_kill_by_the_kernel(
    little_memory: Path, workers: Any, status: Any, reason: Any, effects: Any, eventually: Any
) -> None:
    """A job eats all memory, twice: it fails with a reason, and the worker goes on."""
    process = workers.start("default", **APP)
    (little_memory / "cgroup.procs").write_text(str(process.pid))
    assert jobs.Sync.dispatch("before").result(20) == "before"
    handle = jobs.Hungry.dispatch()
    eventually(lambda: status(handle.id) == "failed", 90)
    assert len(effects("hungry")) == 2
    assert process.poll() is None
    eventually(lambda: reason(handle.id) == "killed by signal 9: out of memory, or by hand")
    assert jobs.Sync.dispatch("after").result(20) == "after"


def test_a_limit_of_20_a_second_holds_over_four_workers(
    workers: Any, client: redis.Redis, eventually: Callable[..., Any]
) -> None:
    """From a bucket that starts full: 20 at once, and 20 in each second that follows."""
    seconds = 30 if IS_LONG else 2
    jobs.Metered.dispatch_many([((), {})] * (20 * seconds + 100))
    workers.start("default", "-n", "4", **APP)
    eventually(lambda: client.llen("effects:metered") > 20 * seconds + 60, seconds + 20)
    times = sorted(float(at) for at in client.lrange("effects:metered", 0, -1))
    within = sum(at < times[0] + seconds for at in times)
    print(f"{within} runs in {seconds} s")
    assert 20 * seconds <= within <= 20 * seconds + 40
