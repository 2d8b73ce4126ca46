"""What must never run, and never stop a worker: foreign code, junk records, junk ids, wrong types."""

from __future__ import annotations

import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import msgpack
import pytest
import redis

from shared.keys import Keys
from shared.options import JobOptions
from shared.payload import RUNNER, Call, FireContext, data_head, data_of, pack_call, pack_context
from shared.redisio.records import job_fields, stamp

NOW = stamp(1_790_000_000_000)
GOOD = data_of(Call(job="sync", args=("ran",)), FireContext(kind="dispatch", enqueued=1))
FIXED, CONTEXT = pack_call(Call(job="sync", args=("ran",))), pack_context(FireContext(kind="dispatch", enqueued=1))


class Bomb:
    """Pickled, it writes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, Any]:
        return os.system, (f"touch {self.path}",)


def call(*parts: Any) -> bytes:
    return bytes(msgpack.packb(parts))


def put(client: redis.Redis, keys: Keys, job_id: str, **fields: Any) -> str:
    """Enqueue a record as it is."""
    sound = dict(zip(*[iter(job_fields("sync", JobOptions(), None))] * 2, strict=True))
    record = {"created_at": NOW, "enqueued_at": NOW, "status": "queued", "data": GOOD, **sound, **fields}
    client.hset(keys.rq_job(job_id), mapping={name: value for name, value in record.items() if value is not None})
    client.sadd(keys.rq_queues, keys.rq_queue("default"))
    client.rpush(keys.rq_queue("default"), job_id)
    return job_id


def canary(folder: Path) -> Path:
    return folder / "canary"


CODE = {
    "os.system": lambda path: {"data": call("os.system", None, [f"touch {path}"], {})},
    "eval": lambda path: {"data": call("builtins.eval", None, [f"open({str(path)!r}, 'w')"], {})},
    "instance": lambda _path: {"data": call("format", "{0.__class__}", [1], {})},
    "runner-with-instance": lambda _path: {"data": call(RUNNER, "x", [FIXED, CONTEXT], {})},
    "runner-with-keywords": lambda _path: {"data": call(RUNNER, None, [FIXED, CONTEXT], {"site": 1})},
    "pickled-data": lambda path: {"data": pickle.dumps(Bomb(path))},
    "pickled-meta": lambda path: {"meta": pickle.dumps(Bomb(path))},
    "success-callback": lambda _path: {"success_callback_name": "os.getcwd"},
    "failure-callback": lambda _path: {"failure_callback_name": "os.getcwd"},
    "stopped-callback": lambda _path: {"stopped_callback_name": "os.getcwd"},
    "webhook": lambda _path: {"webhooks": json.dumps([{"url": "http://127.0.0.1:9/", "job_status": "finished"}])},
    "dependency": lambda _path: {"dependency_ids": '["x"]'},
}

JUNK = {
    "created_at": {"created_at": "yesterday"},
    "enqueued_at": {"enqueued_at": b"\xff\xfe"},
    "timeout": {"timeout": "soon"},
    "timeout-forever": {"timeout": -1},
    "timeout-huge": {"timeout": 10**12},
    "status": {"status": "dancing"},
    "no-status": {"status": None},
    "attempt": {"attempt": "first"},
    "origin": {"origin": b"\xff"},
    "result_ttl": {"result_ttl": "x"},
    "failure_ttl": {"failure_ttl": "1e9"},
    "retries_left": {"retries_left": "many"},
    "description": {"description": b"\xff\xfe"},
    "enqueue_at_front": {"enqueue_at_front": "maybe"},
    "exc_info-bomb": {"exc_info": zlib.compress(b"\0" * 50_000_000)},
    "many-fields": {f"f{number}": 1 for number in range(100)},
    "huge-field": {"whatever": b"x" * 2_000_000},
}

BYTES = {
    "empty": b"",
    "random": bytes(range(256)),
    "truncated": GOOD[:-20],
    "claims-4-gb": b"\xdd\xff\xff\xff\xff",
    "claims-4-gb-of-bytes": b"\xc6\xff\xff\xff\xff",
    "deep": b"\x91" * 5000,
    "zlib-bomb": zlib.compress(b"\0" * 100_000_000, 9),
    "zlib-in-zlib": zlib.compress(zlib.compress(GOOD)),
    "text": b"hello",
    "foreign-extension": call(RUNNER, None, [msgpack.ExtType(42, b""), CONTEXT], {}),
    "newer-version": call(RUNNER, None, [msgpack.packb({"v": 2, "job": "sync"}), CONTEXT], {}),
    "no-context": call(RUNNER, None, [FIXED], {}),
    "junk-context": call(RUNNER, None, [FIXED, b"\xc1"], {}),
    "unknown-context-field": call(RUNNER, None, [FIXED, msgpack.packb({"v": 1, "kind": "dispatch", "x": 1})], {}),
    "too-big": data_head(b"\0" * 300_000),
}


def burst(workers: Any) -> None:
    assert workers.start("default", "--burst").wait(60) == 0, workers.log()


def check_refused(client: redis.Redis, keys: Keys, ids: list[str], reason: Any) -> None:
    """Each is failed with one reason, listed once, and nothing is left over."""
    assert dict.fromkeys(ids, b"failed") == {job_id: client.hget(keys.rq_job(job_id), "status") for job_id in ids}
    assert all(reason(job_id) for job_id in ids)
    assert set(ids) == {entry.decode() for entry in client.zrange(keys.rq_registry("failed", "default"), 0, -1)}
    assert client.llen(keys.rq_taken("default")) == 0
    assert client.llen(keys.rq_queue("default")) == 0


@pytest.fixture
def run_amid_good_ones(workers: Any, client: redis.Redis, keys: Keys, reason: Any) -> Any:
    """Runs bad records with a good job behind each, and checks both."""

    def run(records: dict[str, dict[str, Any]]) -> list[str]:
        ids, good = [], []
        for name, fields in records.items():
            ids.append(put(client, keys, f"bad-{name}".replace(".", "-"), **fields))
            good.append(jobs.Sync.dispatch(name))
        burst(workers)
        check_refused(client, keys, ids, reason)
        assert [handle.result() for handle in good] == list(records)
        return ids

    return run


@pytest.mark.fault("F47")
def test_poison_code_by_name_instance_callback_webhook_or_pickle_is_refused(
    run_amid_good_ones: Any, tmp_path: Path
) -> None:
    run_amid_good_ones({name: fields(canary(tmp_path)) for name, fields in CODE.items()})
    assert not canary(tmp_path).exists()


def test_poison_bytes(run_amid_good_ones: Any) -> None:
    run_amid_good_ones({name: {"data": data} for name, data in BYTES.items()})


def test_poison_job_fields(run_amid_good_ones: Any, client: redis.Redis, keys: Keys) -> None:
    ids = run_amid_good_ones(JUNK)
    # RQ's own tools read the refused ones
    from rq.job import Job

    for job_id in ids:
        assert Job.fetch(job_id, connection=client).id == job_id


def test_poison_ids_that_are_none(workers: Any, client: redis.Redis, keys: Keys, reason: Any) -> None:
    client.rpush(keys.rq_queue("default"), b"\xff\xfe", "a b", "x" * 1000, "", "a:b")
    good = jobs.Sync.dispatch("good")
    burst(workers)
    assert good.result() == "good"
    ids = [entry.decode() for entry in client.zrange(keys.rq_registry("failed", "default"), 0, -1)]
    assert len(ids) == 5
    check_refused(client, keys, ids, reason)


def test_poison_records_of_a_wrong_type_or_gone(workers: Any, client: redis.Redis, keys: Keys, reason: Any) -> None:
    client.set(keys.rq_job("text"), "I am no hash")
    client.rpush(keys.rq_job("list"), "nor am I")
    client.rpush(keys.rq_queue("default"), "text", "list", "gone")
    good = jobs.Sync.dispatch("good")
    burst(workers)
    assert good.result() == "good"
    check_refused(client, keys, ["text", "list"], reason)
    assert client.get(f"{keys.rq_job('text')}:refused") == b"I am no hash"


def test_a_refused_job_with_results_of_a_wrong_type_lands_in_the_failed_registry(
    workers: Any, client: redis.Redis, keys: Keys, reason: Any
) -> None:
    put(client, keys, "bad", timeout="soon")
    client.set(keys.rq_results("bad"), "no stream")
    good = jobs.Sync.dispatch("good")
    burst(workers)
    assert good.result() == "good"
    check_refused(client, keys, ["bad"], reason)


def test_qd_ghost_entries_an_id_runs_only_from_status_queued(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any
) -> None:
    for state in ("started", "finished", "failed", "scheduled", "deferred", "stopped", "canceled"):
        put(client, keys, f"ghost-{state}", status=state)
    put(client, keys, "twice")
    client.rpush(keys.rq_queue("default"), "twice")
    burst(workers)
    assert effects("sync") == ["twice"]
    assert client.llen(keys.rq_taken("default")) == 0


@pytest.mark.parametrize("where", ["rq_queue", "rq_taken", "wip"])
def test_a_list_or_registry_of_the_wrong_type_is_waited_out_and_nothing_is_lost(
    workers: Any, client: redis.Redis, keys: Keys, eventually: Any, where: str
) -> None:
    broken = keys.rq_registry("wip", "default") if where == "wip" else getattr(keys, where)("default")
    client.set(broken, "of no use")
    early = None if where == "rq_queue" else jobs.Sync.dispatch("early")
    process = workers.start("default")
    eventually(lambda: "WRONGTYPE" in workers.log())
    assert process.poll() is None
    client.delete(broken)
    assert jobs.Sync.dispatch("after").result(15) == "after"
    assert early is None or early.result(60) == "early"
    assert workers.log().count("Traceback") == 0
