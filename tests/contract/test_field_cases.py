"""Faults that users of such schedulers met, as far as one store can show them. Named after their cases."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.schedule import build
from scheduler.triggers import DateTrigger
from shared.errors import StoreRefusedError
from shared.keys import Keys
from shared.redisio.connection import check_server, connect
from shared.redisio.server import OwnServer
from tests.contract.conftest import Work

Stage = Any


def test_dup_far_delayed_job(stage: Stage) -> None:
    """A date two hours ahead, declared again by each restart: one entry in the timetable, one job when it is due."""
    far = build(Work, DateTrigger((stage.now + 7_200_000) / 1000), {"id": "far"})
    for _ in range(5):
        stage.admin.upsert([far])
    assert stage.client.zrange(stage.keys.timetable, 0, -1) == [b"far"]
    stage.client.hset(stage.keys.schedule_prefix + "far", "cursor", stage.now - 1)
    near = build(Work, DateTrigger(stage.now / 1000), {"id": "far"})
    for _ in range(3):
        stage.commit(stage.plan(near))
    assert len(stage.queued()) == 1


def test_miss_claimed_not_enqueued(stage: Stage) -> None:
    """Every dedupe key has its job on the queue, and a commit whose reply was lost is recognised as one's own."""
    schedule = stage.add(catchup_limit=5, overlap="allow")
    planned = stage.plan(schedule)
    stage.commit(planned)
    claims = {stage.client.get(key).decode() for key in stage.client.scan_iter(f"{stage.keys.fired_prefix}*")}
    assert claims == set(stage.queued())
    assert stage.commit(planned)[0].code == "already"


def test_miss_next_created_by_previous(stage: Stage) -> None:
    """One job is deleted, one fails, one vanishes: the schedule goes on without a gap."""
    schedule = stage.add(catchup_limit=1, overlap="allow")
    times = []
    for until in range(-5000, 1, 1000):
        planned = stage.plan(schedule, until=until)
        stage.commit(planned)
        times.append(planned.plan.cursor)
        latest = stage.keys.rq_job(stage.queued()[-1])
        stage.client.delete(latest) if len(times) % 2 else stage.client.hset(latest, "status", "failed")
    assert times == list(range(times[0], times[-1] + 1, 1000))
    assert len(stage.queued()) == 6


def test_gr_dedupe_keys(stage: Stage) -> None:
    """After many fires every key of ours has a TTL, but for those that are named here and bounded."""
    schedule = stage.add(catchup_limit=50, overlap="allow")
    stage.commit(stage.plan(schedule))
    keys = stage.keys
    lasting = {
        *(keys.timetable, keys.schedules, keys.declared, keys.ledger, keys.control, keys.leader),
        *(keys.schedule_prefix + "s", keys.ledger_prefix + "s", keys.live_prefix + "work"),
    }
    without = {key.decode() for key in stage.client.scan_iter(f"{keys.ours}:*") if stage.client.ttl(key) == -1}
    assert without == lasting
    assert len(list(stage.client.scan_iter(f"{keys.fired_prefix}*"))) == 50


def test_gr_failed_kept_a_year(stage: Stage) -> None:
    """A failed job is kept for a week, unless its class says otherwise; RQ's own default is a year."""
    schedule = stage.add(catchup_limit=1)
    stage.commit(stage.plan(schedule))
    assert stage.client.hget(stage.keys.rq_job(stage.queued()[0]), "failure_ttl") == b"604800"


def test_sec_args_in_logs(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1, args=[4_242_424_242])
    stage.commit(stage.plan(schedule))
    assert stage.client.hget(stage.keys.rq_job(stage.queued()[0]), "description") == b"contract-work"


def test_redis_cluster_slots(tmp_path: Any) -> None:
    """A cluster is refused at the start, unless one hash tag puts all keys into one slot."""
    own = OwnServer(tmp_path, socket=tmp_path / "s", port=0, options=("--port", "7999", "--cluster-enabled", "yes"))
    own.start()
    try:
        with connect(own.url) as client:
            with pytest.raises(StoreRefusedError, match="hash tag"):
                check_server(client, Keys.for_namespace("shop"))
            assert check_server(client, Keys.for_namespace("{shop}"))
    finally:
        own.kill()
