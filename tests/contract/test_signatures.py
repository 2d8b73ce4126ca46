"""What is enqueued under a key verifies by it, whoever fires: the commit, a wait, a hand, a backfill, a dispatch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.handfire import HandFire, Range
from scheduler.store import RedisTimetable
from shared.clock import SystemClock
from shared.codec import decode
from shared.errors import RefusedPayloadError
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from shared.signature import UNSIGNED, Keyring
from tests.contract.conftest import Stage, Work

RING, OTHER = Keyring((b"k" * 32,)), Keyring((b"o" * 32,))


@pytest.fixture
def signed(stage: Stage) -> Stage:
    stage.timetable = RedisTimetable(stage.client, stage.keys, SystemClock(), RING)
    return stage


def verify(stage: Stage, job_id: str, ring: Keyring = RING) -> list[Any]:
    """The arguments of a job, whose signature was found right."""
    data = stage.client.hget(stage.keys.rq_job(job_id), "data")
    assert isinstance(data, bytes)
    _, _, (fixed, context), _ = decode(data)
    ring.verify(context, fixed, job_id)
    return list(decode(fixed)["args"])


def test_each_fire_of_a_commit_is_signed_for_its_own_job(signed: Stage) -> None:
    signed.commit(signed.plan(signed.add(overlap="allow", catchup_limit=5, args=[3])))
    ids = signed.queued()
    assert [verify(signed, job_id) for job_id in ids] == [[3]] * 5
    with pytest.raises(RefusedPayloadError):
        verify(signed, ids[0], OTHER)
    one, other = (signed.keys.rq_job(job_id) for job_id in ids[:2])
    signed.client.hset(one, "data", signed.client.hget(other, "data"))
    with pytest.raises(RefusedPayloadError):
        verify(signed, ids[0])


def test_without_a_key_nothing_is_signed(stage: Stage) -> None:
    stage.commit(stage.plan(stage.add(overlap="allow", catchup_limit=1)))
    (job_id,) = stage.queued()
    assert verify(stage, job_id, UNSIGNED) == []
    with pytest.raises(RefusedPayloadError, match="has no signature"):
        verify(stage, job_id)


@pytest.mark.parametrize("is_changed", [False, True])
def test_a_fire_that_waited_verifies_though_its_schedule_was_changed(signed: Stage, is_changed: bool) -> None:
    schedule = signed.add(overlap="buffer", catchup_limit=2, args=[1])
    signed.commit(signed.plan(schedule))
    (earlier,) = signed.queued()
    assert signed.client.exists(signed.keys.waiting_prefix + "s")
    if is_changed:
        signed.add(overlap="buffer", catchup_limit=2, args=[2])
    signed.client.hset(signed.keys.rq_job(earlier), "status", "finished")
    (released,) = signed.timetable.release_waiting(signed.lease)
    assert released.outcome == "enqueued"
    assert [verify(signed, job_id) for job_id in signed.queued()] == [[1], [1]]


def test_unsigned_a_fire_that_waited_runs_what_its_schedule_is_now(stage: Stage) -> None:
    stage.commit(stage.plan(stage.add(overlap="buffer", catchup_limit=2, args=[1])))
    (earlier,) = stage.queued()
    stage.add(overlap="buffer", catchup_limit=2, args=[2])
    stage.client.hset(stage.keys.rq_job(earlier), "status", "finished")
    stage.timetable.release_waiting(stage.lease)
    assert [verify(stage, job_id, UNSIGNED) for job_id in stage.queued()] == [[1], [2]]


def test_fires_by_hand_and_backfills_are_signed(signed: Stage) -> None:
    signed.add(overlap="allow", args=[4])
    hand = HandFire(signed.client, signed.keys, SystemClock(), "tester", RING)
    hand.now("s")
    hand.backfill("s", Range(start=signed.now - 64_500, end=signed.now - 61_500))
    assert [verify(signed, job_id) for job_id in signed.queued()] == [[4]] * 4


def test_a_fire_by_hand_verifies_though_its_schedule_changes_meanwhile(
    signed: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hand = HandFire(signed.client, signed.keys, SystemClock(), "tester", RING)
    schedule = signed.add(args=[1])
    monkeypatch.setattr(hand, "_reader", replaced := type("Stale", (), {"definition": lambda _self, _id: schedule})())
    signed.add(args=[2])
    assert replaced
    hand.now("s")
    (job_id,) = signed.queued()
    assert verify(signed, job_id) == [1]


def test_dispatched_jobs_are_signed_and_the_key_is_read_where_none_is_given(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RQBEAT_PAYLOAD_KEY", "k" * 32)
    for outbox in (RedisOutbox(stage.client, stage.keys), RedisOutbox(stage.client, stage.keys, keyring=RING)):
        with using_outbox(outbox):
            first, second = Work.dispatch_many([Work.arguments(7), Work.arguments(8)])
        assert (verify(stage, first.id), verify(stage, second.id)) == ([7], [8])


def test_a_signature_costs_a_fire_a_few_dozen_bytes(stage: Stage) -> None:
    sizes = []
    for ring in (UNSIGNED, RING):
        stage.timetable = RedisTimetable(stage.client, stage.keys, SystemClock(), ring)
        schedule = stage.add(f"s{len(sizes)}", overlap="allow", catchup_limit=1)
        stage.commit(replace(stage.plan(schedule)))
        sizes.append(stage.client.hstrlen(stage.keys.rq_job(stage.queued()[-1]), "data"))
    assert 34 <= sizes[1] - sizes[0] <= 40
