"""Records that are small where they lie and huge once they are unpacked: the worker's memory stays what it was."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import bench_jobs as jobs
import msgpack
import pytest
import redis

from shared.keys import Keys
from shared.options import JobOptions
from shared.payload import FireContext, data_head, pack_context
from shared.redisio.records import job_fields, stamp
from shared.signature import Keyring

MOST_MB = 150
NOW = stamp(1_790_000_000_000)
CONTEXT = pack_context(FireContext(kind="dispatch", enqueued=1))


def bomb(mebibytes: int) -> bytes:
    """So many MiB of zeros, compressed: one block, as often as needed, and the checksum of them all."""
    stream, zeros = zlib.compressobj(9), b"\0" * 2**20
    first = stream.compress(zeros) + stream.flush(zlib.Z_FULL_FLUSH)
    block = stream.compress(zeros) + stream.flush(zlib.Z_FULL_FLUSH)
    check = 1
    for _ in range(mebibytes):
        check = zlib.adler32(zeros, check)
    return first + block * (mebibytes - 1) + b"\x03\x00" + check.to_bytes(4, "big")


def call(fixed: bytes, context: bytes = CONTEXT) -> bytes:
    return data_head(fixed) + msgpack.packb(context) + b"\x80"


FIXED = b"\x86" + b"".join(
    map(msgpack.packb, ("v", 1, "job", "sync", "kwargs", {}, "retry", None, "middleware", [], "args"))
)

SIZES: dict[str, dict[str, Any]] = {
    "2-gib-of-zeros": {"data": bomb(2048)},
    "900-mib-that-fit-into-a-field": {"data": bomb(900)},
    "900-mib-of-error-text": {"exc_info": bomb(900)},
    "an-array-of-4-g": {"data": b"\xdd\xff\xff\xff\xff"},
    "an-array-of-4-g-inside": {"data": call(FIXED + b"\xdd\xff\xff\xff\xff")},
    "bytes-of-4-g-inside": {"data": call(FIXED + b"\xc6\xff\xff\xff\xff")},
    "an-extension-of-4-g": {"data": call(FIXED + b"\xc9\xff\xff\xff\xff\x06")},
    "meta-of-4-g": {"meta": b"\xdf\xff\xff\xff\xff"},
    "a-signature-of-4-g": {"data": call(FIXED + b"\x90", b"\x92\xc6\xff\xff\xff\xff")},
}


def put(client: redis.Redis, keys: Keys, job_id: str, fields: dict[str, Any]) -> str:
    sound = dict(zip(*[iter(job_fields("sync", JobOptions(), None))] * 2, strict=True))
    record = {"created_at": NOW, "enqueued_at": NOW, "status": "queued", "data": b"", **sound, **fields}
    client.hset(keys.rq_job(job_id), mapping=record)
    client.rpush(keys.rq_queue("default"), job_id)
    return job_id


def peak_mb(pid: int) -> float:
    """The most memory that a process and those it started have had, each for itself."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    own = [int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")]  # none of one that has ended
    return max([*own, *(peak_mb(int(child)) for child in children)], default=0)


@pytest.mark.fault("F47")
def test_nothing_that_is_huge_when_unpacked_is_unpacked(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, reason: Any, eventually: Any
) -> None:
    ids = [put(client, keys, f"huge-{name}", fields) for name, fields in SIZES.items()]
    good = jobs.Sync.dispatch("good")
    process = workers.start("default")
    assert good.result(60) == "good"
    eventually(lambda: [status(job_id) for job_id in ids] == ["failed"] * len(ids))
    assert all(reason(job_id) for job_id in ids)
    assert peak_mb(process.pid) < MOST_MB


@pytest.mark.fault("F47")
def test_a_worker_with_a_key_unpacks_no_more(workers: Any, client: redis.Redis, keys: Keys, eventually: Any) -> None:
    sealed = Keyring((b"k" * 32,)).seal(CONTEXT, b"", "huge")
    put(client, keys, "huge", {"data": call(b"\xc1", sealed)})
    process = workers.start("default", RQBEAT_PAYLOAD_KEY="k" * 32)
    eventually(lambda: client.zscore(keys.rq_registry("failed", "default"), "huge"))
    assert peak_mb(process.pid) < MOST_MB


def test_the_bomb_is_one() -> None:
    assert zlib.decompress(bomb(3)) == b"\0" * 3 * 2**20
