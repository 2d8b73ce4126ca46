"""What the commit promises: whatever is sent, and however often, every nominal time is decided once, and wholly."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduler.ports import Lease
from scheduler.triggers import DateTrigger

Stage = Any


def test_a_plan_becomes_jobs_entries_and_a_moved_cursor(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=5, overlap="allow")
    planned = stage.plan(schedule)
    (result,) = stage.commit(planned)
    assert (result.code, result.settled) == ("ok", {})
    fires = [decision for decision in planned.plan.decisions if hasattr(decision, "context")]
    assert stage.queued() == [fire.job_id for fire in fires]
    assert stage.cursor(schedule) == planned.plan.cursor
    assert sum(entry.count for entry in stage.ledger("s")) == sum(entry.count for entry in stage.ledger())
    assert [entry.job_id for entry in stage.ledger() if entry.outcome == "enqueued"] == stage.queued()


def test_a_job_has_what_a_worker_needs(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1, timeout=77, kwargs={"number": 3})
    stage.commit(stage.plan(schedule))
    (job_id,) = stage.queued()
    record = stage.client.hgetall(stage.keys.rq_job(job_id))
    assert record[b"status"] == b"queued"
    assert (record[b"origin"], record[b"timeout"], record[b"description"]) == (b"work", b"77", b"contract-work")
    assert b"number" in record[b"data"]
    assert stage.client.sismember(stage.keys.rq_queues, stage.keys.rq_queue("work"))


def test_dup_kill_between_enqueue_and_record(stage: Stage) -> None:
    """Sent twice with the same arguments: one queue entry and one ledger entry for each nominal time."""
    schedule = stage.add(catchup_limit=5, overlap="allow")
    planned = stage.plan(schedule)
    assert [stage.commit(planned)[0].code for _ in range(3)] == ["ok", "already", "already"]
    assert len(stage.queued()) == 5
    assert len({entry.nominal for entry in stage.ledger()}) == len(stage.ledger()) == 6


def test_a_plan_from_another_cursor_is_told_to_plan_again(stage: Stage) -> None:
    schedule = stage.add()
    early, late = stage.plan(schedule, until=-30_000), stage.plan(schedule)
    stage.commit(early)
    assert stage.commit(late)[0].code == "moved"
    assert stage.cursor(schedule) == early.plan.cursor


def test_a_plan_from_an_older_definition_is_stale(stage: Stage) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    stage.add(note="changed")
    assert stage.commit(planned)[0].code == "stale"
    assert stage.queued() == []


def test_a_lost_lease_writes_nothing(stage: Stage) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    stage.client.hset(stage.keys.leader, mapping={"owner": "another", "term": 7})
    assert stage.timetable.commit(stage.lease, [planned]) is None
    assert (stage.queued(), stage.ledger()) == ([], [])


@pytest.mark.parametrize("lease", [Lease(owner="me", term="0"), Lease(owner="you", term="1")])
def test_the_fence_is_owner_and_term(stage: Stage, lease: Lease) -> None:
    assert stage.timetable.commit(lease, [stage.plan(stage.add())]) is None


def test_what_is_not_due_by_the_servers_clock_is_early(stage: Stage) -> None:
    schedule = stage.add()
    assert stage.commit(stage.plan(schedule, until=60_000))[0].code == "early"
    assert stage.queued() == []


def test_the_dedupe_key_holds_where_the_cursor_was_lost(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=3, overlap="allow")
    stage.commit(stage.plan(schedule))
    stage.client.hset(stage.keys.schedule_prefix + "s", "cursor", stage.now - 60_000)
    for job_id in stage.queued():
        stage.client.delete(stage.keys.rq_job(job_id))
    (result,) = stage.commit(stage.plan(schedule))
    assert {outcome for outcome, _ in result.settled.values()} == {"deduplicated"}
    assert len(stage.queued()) == 3


def test_the_jobs_own_record_holds_where_the_dedupe_key_is_gone_too(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=3, overlap="allow")
    planned = stage.plan(schedule)
    stage.commit(planned)
    for decision in planned.plan.decisions[1:]:
        stage.client.delete(f"{stage.keys.fired_prefix}s:{decision.nominal}")
    stage.client.hset(stage.keys.schedule_prefix + "s", "cursor", stage.now - 60_000)
    stage.commit(stage.plan(schedule))
    assert len(stage.queued()) == 3


def test_dedupe_keys_expire(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1)
    planned = stage.plan(schedule)
    stage.commit(planned)
    key = f"{stage.keys.fired_prefix}s:{planned.plan.cursor}"
    assert schedule.dedupe_ttl - 5000 < stage.client.pttl(key) <= schedule.dedupe_ttl


def test_overlap_skips_while_an_earlier_job_is_with_rq(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=3)
    (result,) = stage.commit(stage.plan(schedule))
    assert list(result.settled.values()) == [("skipped", "overlap")] * 2
    assert len(stage.queued()) == 1
    assert sorted(entry.outcome for entry in stage.ledger()) == ["enqueued", "missed", "skipped", "skipped"]


@pytest.mark.parametrize("status", ["queued", "started", "scheduled", "deferred"])
def test_an_earlier_job_counts_while_rq_has_it(stage: Stage, status: str) -> None:
    schedule = stage.add(catchup_limit=1)
    stage.commit(stage.plan(schedule, until=-5000))
    stage.client.hset(stage.keys.rq_job(stage.queued()[0]), "status", status)
    assert stage.commit(stage.plan(schedule))[0].settled
    assert len(stage.queued()) == 1


@pytest.mark.parametrize("status", ["finished", "failed", "stopped", "canceled", None])
def test_miss_failed_job_id_blocks(stage: Stage, status: str | None) -> None:
    """A job that ended in any way, or vanished, blocks no later fire."""
    schedule = stage.add(catchup_limit=1)
    stage.commit(stage.plan(schedule, until=-5000))
    key = stage.keys.rq_job(stage.queued()[0])
    if status is None:
        stage.client.delete(key)
    else:
        stage.client.hset(key, "status", status)
    stage.commit(stage.plan(schedule))
    assert len(stage.queued()) == 2


def test_overlap_is_allowed_up_to_max_instances(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=10, overlap="allow", max_instances=4)
    stage.commit(stage.plan(schedule))
    assert len(stage.queued()) == 4


def test_a_queue_key_of_the_wrong_type_stops_its_schedule_alone(stage: Stage) -> None:
    bad, good = stage.add("bad", queue="broken"), stage.add("good", catchup_limit=1)
    stage.client.set(stage.keys.rq_queue("broken"), "a string")
    results = stage.commit(stage.plan(bad), stage.plan(good))
    assert [result.code for result in results] == ["error", "ok"]
    assert stage.keys.rq_queue("broken") in results[0].detail
    assert (stage.ledger("bad"), stage.cursor(bad)) == ([], stage.now - 60_000)
    assert list(stage.client.scan_iter(f"{stage.keys.fired_prefix}bad*")) == []
    assert len(stage.queued()) == 1


@pytest.mark.parametrize("key", ["timetable", "ledger", "rq_queues"])
def test_a_common_key_of_the_wrong_type_is_named_and_nothing_is_written(stage: Stage, key: str) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    name = getattr(stage.keys, key)
    stage.client.delete(name)
    stage.client.set(name, "a string")
    (result,) = stage.commit(planned)
    assert result.code == "error"
    assert name in result.detail
    assert stage.cursor(schedule) == stage.now - 60_000


@pytest.mark.parametrize("change", ["pause", "cancel", "remove"])
def test_a_schedule_that_is_not_active_decides_nothing(stage: Stage, change: str) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    getattr(stage.admin, change)("s", "by a test")
    assert stage.commit(planned)[0].code == "gone"
    assert (stage.queued(), stage.ledger()) == ([], [])


def test_a_spent_trigger_completes_its_schedule(stage: Stage) -> None:
    schedule = stage.add(trigger=DateTrigger((stage.now - 1000) / 1000))
    stage.commit(stage.plan(schedule))
    assert stage.reader.schedule("s").status == "completed"
    assert stage.client.zscore(stage.keys.timetable, "s") is None


def test_a_limit_completes_after_so_many_enqueued_fires(stage: Stage) -> None:
    schedule = stage.add(limit=3, catchup_limit=10, overlap="allow")
    stage.commit(stage.plan(schedule))
    assert len(stage.queued()) == 3
    view = stage.reader.schedule("s")
    assert (view.status, view.last) == ("completed", stage.cursor(schedule))


def test_an_older_beats_jobs_are_left_in_order(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=5, overlap="allow")
    stage.commit(stage.plan(schedule, until=-10_000))
    stage.commit(stage.plan(schedule))
    assert stage.queued() == sorted(stage.queued(), key=lambda job_id: int(job_id.rsplit("-", 1)[1]))


def test_jobs_at_the_front_are_taken_first(stage: Stage) -> None:
    stage.commit(stage.plan(stage.add("back", catchup_limit=1)))
    stage.commit(stage.plan(stage.add("front", catchup_limit=1, at_front=True)))
    assert stage.queued()[0].startswith("front")


def test_state_unreadable_deleted(stage: Stage) -> None:
    """A definition that can't be read is kept as it is, reported, and does not hide the others."""
    stage.add("good")
    stage.add("bad")
    key = stage.keys.schedule_prefix + "bad"
    stage.client.hset(key, "definition", b"\xc1garbage")
    loaded = stage.timetable.load(["good", "bad", "absent"])
    assert isinstance(loaded["bad"], Exception)
    assert isinstance(loaded["good"], tuple)
    assert "absent" not in loaded
    assert "can't be read" in stage.reader.schedule("bad").error
    assert len(stage.reader.schedules()) == 2
    assert stage.client.hget(key, "definition") == b"\xc1garbage"


def test_redis_noscript(stage: Stage) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    stage.client.script_flush()
    assert stage.commit(planned)[0].code == "ok"


def test_ledgers_are_bounded(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1000, catchup_window=86_400, overlap="allow")
    stage.client.hset(stage.keys.schedule_prefix + "s", "cursor", stage.now - 1_500_000)
    stage.commit(stage.plan(schedule, until=-600_000))
    stage.commit(stage.plan(schedule))
    assert stage.client.llen(stage.keys.ledger_prefix + "s") == 1000


def test_a_plan_that_moves_the_index_alone_writes_no_entry(stage: Stage) -> None:
    schedule = stage.add()
    planned = stage.plan(schedule)
    idle = replace(planned, plan=replace(planned.plan, cursor=planned.plan.base, decisions=()))
    assert stage.commit(idle)[0].code in {"ok", "already"}
    assert stage.ledger() == []


@pytest.mark.parametrize("field", ["head", "policy", "fired"])
def test_a_record_that_lacks_a_field_stops_its_schedule_alone(stage: Stage, field: str) -> None:
    bad, good = stage.add("bad"), stage.add("good", catchup_limit=1)
    stage.client.hdel(stage.keys.schedule_prefix + "bad", field)
    results = stage.commit(stage.plan(bad), stage.plan(good))
    assert [result.code for result in results] == ["error", "ok"]
    assert field in results[0].detail
    assert list(stage.client.scan_iter(f"{stage.keys.fired_prefix}bad*")) == []
    assert len(stage.queued()) == 1


@pytest.mark.parametrize(
    ("overlap", "name", "value"),
    [("replace", "rq:scheduled:broken", "text"), ("buffer", "rqbeat:waiting:bad", b"\xc1")],
)
def test_what_only_some_policies_touch_is_looked_at_beforehand(
    stage: Stage, overlap: str, name: str, value: Any
) -> None:
    bad, good = stage.add("bad", queue="broken", overlap=overlap), stage.add("good", catchup_limit=1)
    stage.client.set(name, value)
    results = stage.commit(stage.plan(bad), stage.plan(good))
    assert [result.code for result in results] == ["error", "ok"]
    assert stage.ledger("bad") == []


@pytest.mark.parametrize("junk", [{"rev": "x"}, {"cursor": "x"}, {"status": b"\xff"}])
def test_junk_in_a_record_is_an_error_of_its_schedule(stage: Stage, junk: dict[str, Any]) -> None:
    """state-file-truncated: there is no file of state; what is garbled in Redis stops nothing but itself."""
    stage.add("bad")
    stage.add("good")
    stage.client.hset(stage.keys.schedule_prefix + "bad", mapping=junk)
    stage.client.zadd(stage.keys.timetable, {"bad": stage.now - 1000, "good": stage.now - 1000})
    rows = {row.id: row for row in stage.timetable.due(stage.now, 10, 10).rows}
    assert "can't be read" in rows["bad"].error
    assert rows["good"].error == ""


def test_two_plans_of_one_schedule_in_one_commit_are_not_both_carried_out(stage: Stage) -> None:
    """All is judged before anything is written: the second would be judged by what the first is about to change."""
    planned = stage.plan(stage.add(catchup_limit=3, overlap="allow"))
    assert [result.code for result in stage.commit(planned, planned)] == ["ok", "moved"]
    assert len(stage.queued()) == 3


def test_a_ledger_of_its_own_of_a_wrong_type_is_shown_and_stops_no_fire(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1)
    name = stage.keys.ledger_prefix + "s"
    stage.client.set(name, "a string")
    (result,) = stage.commit(stage.plan(schedule))
    assert (result.code, len(stage.queued())) == ("ok", 1)
    assert name in result.detail
    assert name in stage.reader.schedule("s").error
    assert [entry.outcome for entry in stage.ledger()] == ["missed", "enqueued"]


def test_jobs_that_still_live_count_whichever_of_them_is_the_latest(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1, max_instances=2, overlap="allow")
    for until in (-9000, -7000, -5000):
        stage.commit(stage.plan(schedule, until=until))
    first, second = stage.queued()
    stage.client.hset(stage.keys.rq_job(first), "status", "finished")
    stage.commit(stage.plan(schedule, until=-3000))
    assert stage.queued()[:2] == [first, second]
    assert len(stage.queued()) == 3
    assert list(stage.commit(stage.plan(schedule))[0].settled.values()) == [("skipped", "overlap")]


def test_what_comes_next_is_read_in_pieces_and_in_order(stage: Stage) -> None:
    for number in range(5):
        stage.add(f"s{number}")
        stage.client.zadd(stage.keys.timetable, {f"s{number}": stage.now + 1000 * number})
    until = stage.now + 3000
    pieces = [[row.id for row in stage.timetable.coming(until, skip, 2)] for skip in (0, 2, 4)]
    assert pieces == [["s0", "s1"], ["s2", "s3"], []]
