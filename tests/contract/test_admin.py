"""Changing what is stored: by revision, by hand, for a while, and what the leader does on the side."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from scheduler.admin import Admin
from scheduler.handfire import HandFire, Range
from scheduler.readers import Reader
from scheduler.schedule import build
from scheduler.selfaudit import SelfAudit, findings
from scheduler.store import PATIENCE_MS, RedisChores
from scheduler.triggers import DateTrigger, IntervalTrigger
from scheduler.wiring import Declared
from shared import Job
from shared.clock import SystemClock
from shared.errors import ConfigurationError, ConflictError, NotFoundError, RefusedChangeError, StoreRefusedError
from shared.outbox import using_outbox
from shared.redisio.connection import server_now
from shared.redisio.dispatch import Promoter, RedisOutbox

Stage = Any


class Administered(Job):
    name = "administered"
    queue = "work"

    def handle(self, number: int = 0) -> None: ...


def made(**options: Any) -> Any:
    return build(Administered, options.pop("trigger", IntervalTrigger(60)), {"id": "s", **options}, "runtime")


@pytest.fixture
def hand(stage: Stage) -> HandFire:
    return HandFire(stage.client, stage.keys, SystemClock(), "tester")


@pytest.fixture
def chores(stage: Stage) -> RedisChores:
    return RedisChores(stage.client, stage.keys)


def control(stage: Stage) -> list[dict[bytes, bytes]]:
    return [fields for _, fields in stage.client.xrange(stage.keys.control)]


# Upsert, and updates that must not be lost.


def test_an_upsert_says_what_it_did(stage: Stage) -> None:
    assert stage.admin.upsert([made()]) == {"s": "added"}
    assert stage.admin.upsert([made()]) == {"s": "unchanged"}
    assert stage.admin.upsert([made(note="n")]) == {"s": "changed"}


def test_a_thousand_schedules_are_stored_in_a_few_round_trips(stage: Stage) -> None:
    before = stage.client.info("stats")["total_commands_processed"]
    schedules = [build(Administered, IntervalTrigger(60), {"id": f"s{n}"}) for n in range(1000)]
    assert set(stage.admin.upsert(schedules).values()) == {"added"}
    assert len(stage.reader.schedules()) == 1000
    assert stage.client.info("stats")["total_commands_processed"] > before


def test_chg_lost_update(stage: Stage) -> None:
    """Of two who read the same revision, the second to write is refused and overwrites nothing."""
    stage.admin.upsert([made()])
    read = stage.admin.held(["s"])["s"].revision
    assert stage.admin.replace(made(note="mine"), read) == read + 1
    with pytest.raises(ConflictError, match="changed since"):
        stage.admin.replace(made(note="theirs"), read)
    assert stage.reader.schedule("s").schedule.note == "mine"


def test_a_change_between_read_and_write_is_not_overwritten(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that counts is the script's: between the last reading and the write, somebody else is quicker."""
    stage.admin.upsert([made()])
    read = stage.admin.held(["s"])["s"].revision
    other = Admin(stage.client, stage.keys, SystemClock(), "other")

    def clock_read_late(client: Any) -> int:
        monkeypatch.undo()
        other.upsert([made(note="theirs")])
        return server_now(client)

    monkeypatch.setattr("scheduler.admin.server_now", clock_read_late)
    with pytest.raises(ConflictError, match="changed since"):
        stage.admin.replace(made(note="mine"), read)
    held = stage.reader.schedule("s")
    assert (held.schedule.note, stage.admin.held(["s"])["s"].revision) == ("theirs", read + 1)


def test_an_older_apps_schedules_are_refused_unless_forced(stage: Stage) -> None:
    def declared(version: str, note: str) -> Declared:
        schedule = build(Administered, IntervalTrigger(60), {"id": "s", "note": note})
        reader = Reader(stage.client, stage.keys)
        admin = Admin(stage.client, stage.keys, SystemClock(), "app")
        return Declared([schedule], version, reader, admin, SystemClock())

    newer, older = declared("2.0", "new"), declared("1.9", "old")
    newer.apply(newer.compare())
    with pytest.raises(RefusedChangeError, match=r"version 2\.0 .* older 1\.9"):
        older.apply(older.compare())
    assert stage.reader.schedule("s").schedule.note == "new"
    older.apply(older.compare(), force=True)
    assert stage.reader.schedule("s").schedule.note == "old"


def test_a_fire_between_read_and_write_is_no_conflict_and_is_not_undone(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1)
    read = stage.admin.held(["s"])["s"].revision
    stage.commit(stage.plan(schedule))
    cursor = stage.cursor(schedule)
    stage.admin.replace(build(Administered, schedule.trigger, {"id": "s", "note": "changed"}), read)
    assert stage.cursor(schedule) == cursor
    assert stage.reader.schedule("s").last == cursor


def test_chg_old_pattern_coexists(stage: Stage) -> None:
    """A changed trigger starts from now, under the same id; nothing of the old rule is left."""
    schedule = stage.add()
    stage.admin.upsert([build(Administered, IntervalTrigger(300), {"id": "s"})])
    held = stage.admin.held(["s"])["s"]
    assert held.cursor >= stage.now
    assert stage.plan(build(Administered, IntervalTrigger(300), {"id": "s"})).plan.decisions == ()
    assert [view.id for view in stage.reader.schedules()] == ["s"]
    assert stage.client.zscore(stage.keys.timetable, "s") % 300_000 == 0
    assert schedule.trigger != stage.reader.schedule("s").schedule.trigger


def test_a_change_of_a_paused_schedule_leaves_it_paused(stage: Stage) -> None:
    stage.admin.upsert([made()])
    stage.admin.pause("s", "quiet")
    stage.admin.upsert([made(trigger=IntervalTrigger(30))])
    assert stage.reader.schedule("s").status == "paused"
    assert stage.client.zscore(stage.keys.timetable, "s") is None


def test_each_change_is_recorded_with_who_and_why(stage: Stage) -> None:
    stage.admin.upsert([made()], "for a test")
    stage.admin.pause("s", "too loud")
    stage.admin.resume("s", "quiet again")
    stage.admin.remove("s", "no longer needed")
    rows = [(row[b"action"], row[b"actor"], row[b"reason"]) for row in control(stage)]
    assert rows == [
        (b"added", b"tester", b"for a test"),
        (b"pause", b"tester", b"too loud"),
        (b"resume", b"tester", b"quiet again"),
        (b"remove", b"tester", b"no longer needed"),
    ]


def test_the_index_of_declared_schedules_follows_their_owner(stage: Stage) -> None:
    """A start compares what the app declares with what it has declared before, however much else is stored."""
    declared, taken = stage.add("declared"), stage.add("taken")
    stage.admin.upsert([replace(declared, id="made", owner="runtime")])
    assert stage.reader.declared() == {"declared", "taken"}
    stage.admin.upsert([replace(taken, owner="runtime")])
    assert stage.reader.declared() == {"declared"}
    stage.admin.remove("declared")
    assert stage.reader.declared() == set()


def test_many_are_removed_at_once_and_one_that_is_gone_already_is_no_error(stage: Stage) -> None:
    for number in range(3):
        stage.add(f"s{number}")
    stage.admin.remove("s1")
    stage.admin.remove_all([f"s{number}" for number in range(3)], "by a test")
    assert stage.reader.ids() == []


def test_what_is_removed_leaves_no_key(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=1)
    stage.commit(stage.plan(schedule))
    stage.admin.remove("s")
    assert list(stage.client.scan_iter(f"{stage.keys.ours}:*:s")) == []
    assert stage.client.zscore(stage.keys.timetable, "s") is None


def test_changing_what_is_not_there_says_so(stage: Stage) -> None:
    for change in (stage.admin.pause, stage.admin.resume, stage.admin.cancel, stage.admin.remove):
        with pytest.raises(NotFoundError, match="nothing"):
            change("nothing")


# Pauses.


def test_resuming_passes_over_the_pause_as_one_range(stage: Stage) -> None:
    stage.add()
    stage.admin.pause("s")
    assert stage.admin.resume("s")
    (entry,) = stage.ledger()
    assert (entry.outcome, entry.reason) == ("skipped", "paused")
    assert entry.count in {60, 61}


def test_resuming_with_catch_up_leaves_the_cursor(stage: Stage) -> None:
    schedule = stage.add(on_resume="catch_up")
    stage.admin.pause("s")
    assert stage.admin.resume("s")
    assert (stage.ledger(), stage.cursor(schedule)) == ([], stage.now - 60_000)


def test_a_pause_for_a_while_ends_by_itself(stage: Stage) -> None:
    stage.admin.upsert([made()])
    stage.admin.pause("s", "for a moment", until=SystemClock().now_ms() + 50)
    assert (stage.admin.resume_due(), stage.reader.schedule("s").status) == (0, "paused")
    time.sleep(0.06)
    assert (stage.admin.resume_due(), stage.reader.schedule("s").status) == (1, "active")
    assert stage.admin.resume_due() == 0


def test_resuming_forgets_the_failures_that_paused_it(stage: Stage) -> None:
    stage.admin.upsert([made(pause_after_failures=2)])
    stage.client.hset(stage.keys.stats_prefix + "s", "failures", 2)
    stage.admin.pause("s")
    stage.admin.resume("s")
    assert stage.client.hget(stage.keys.stats_prefix + "s", "failures") == b"0"


# Fires by hand.


def decided_up_to_now(stage: Stage) -> None:
    stage.client.hset(stage.keys.schedule_prefix + "s", "cursor", stage.now)


def test_a_fire_by_hand_leaves_the_cursor(stage: Stage, hand: HandFire) -> None:
    schedule = stage.add()
    fired = hand.now("s", "because")
    assert stage.queued() == [fired.job_id]
    assert stage.cursor(schedule) == stage.now - 60_000
    (entry,) = stage.ledger()
    assert (entry.kind, entry.outcome, entry.job_id, entry.nominal) == (
        "manual",
        "enqueued",
        fired.job_id,
        fired.nominal,
    )


def test_a_request_that_is_sent_twice_fires_once(stage: Stage, hand: HandFire) -> None:
    stage.add()
    decided_up_to_now(stage)
    span = Range(start=stage.now - 10_000, end=stage.now - 5000)
    first = hand.backfill("s", span, request="r1")
    second = hand.backfill("s", Range(start=span.start, end=span.end, again=True), request="r1")
    assert (first.enqueued, second.enqueued, len(stage.queued())) == (5, 0, 5)


def test_a_fire_into_a_broken_queue_writes_nothing(stage: Stage, hand: HandFire) -> None:
    stage.add(queue="broken")
    stage.client.set(stage.keys.rq_queue("broken"), "text")
    with pytest.raises(StoreRefusedError, match="broken"):
        hand.now("s")
    assert stage.ledger() == []


def test_a_backfill_takes_what_was_not_enqueued_yet(stage: Stage, hand: HandFire) -> None:
    schedule = stage.add(catchup_limit=3, overlap="allow")
    stage.commit(stage.plan(schedule, until=-20_000))
    decided_up_to_now(stage)
    span = Range(start=stage.now - 30_000, end=stage.now - 10_000)
    done = hand.backfill("s", span)
    assert (done.planned, done.enqueued) == (17, 17)
    assert {entry.kind for entry in stage.ledger("s")} >= {"backfill"}
    assert hand.plan("s", span) == []
    assert len(hand.plan("s", Range(start=span.start, end=span.end, again=True))) == 20


def test_a_backfill_leaves_to_the_schedule_what_it_has_not_decided(stage: Stage, hand: HandFire) -> None:
    stage.add()
    with pytest.raises(ConfigurationError, match="decided up to"):
        hand.backfill("s", Range(start=stage.now, end=stage.now + 60_000))
    with pytest.raises(ConfigurationError, match="earlier to a later"):
        hand.backfill("s", Range(start=stage.now, end=stage.now - 1))
    last = stage.now - 60_000
    assert max(hand.plan("s", Range(start=last - 5000, end=stage.now + 60_000))) <= last


def test_a_backfill_is_bounded_and_tells_its_progress(stage: Stage, hand: HandFire) -> None:
    stage.add()
    decided_up_to_now(stage)
    seen: list[tuple[int, int]] = []
    span = Range(start=0, end=stage.now, most=1200)
    done = hand.backfill("s", span, progress=lambda count, of: seen.append((count, of)))
    assert (done.enqueued, seen) == (1200, [(500, 1200), (1000, 1200), (1200, 1200)])


def test_a_backfill_may_keep_to_the_schedules_instances(stage: Stage, hand: HandFire) -> None:
    stage.add(overlap="allow", max_instances=2)
    decided_up_to_now(stage)
    done = hand.backfill("s", Range(start=stage.now - 10_000, end=stage.now, overlap="skip"))
    assert (done.enqueued, done.skipped) == (2, 8)
    assert [entry.reason for entry in stage.ledger() if entry.outcome == "skipped"] == ["overlap"] * 8


# Chores.


def test_completed_schedules_of_the_run_time_are_forgotten_after_their_window(
    stage: Stage, chores: RedisChores
) -> None:
    once = build(Administered, DateTrigger((stage.now - 1000) / 1000), {"id": "once", "catchup_window": 60}, "runtime")
    stage.admin.upsert([once])
    stage.commit(stage.plan(once))
    assert (chores.prune(), stage.reader.schedule("once").status) == (False, "completed")
    kept_until = stage.client.zscore(stage.keys.completed, "once")
    assert kept_until is not None
    assert stage.now + 60_000 <= kept_until <= SystemClock().now_ms() + 60_000
    stage.client.zadd(stage.keys.completed, {"once": 1})
    assert (chores.prune(), stage.reader.schedules()) == (False, [])


def test_backlog_date_in_past_declared(stage: Stage, chores: RedisChores) -> None:
    """A declared one-shot that fired stays as a tombstone: declaring it again fires nothing."""
    once = build(Administered, DateTrigger((stage.now - 1000) / 1000), {"id": "once"})
    stage.admin.upsert([once])
    stage.commit(stage.plan(once))
    for _ in range(3):
        assert stage.admin.upsert([once]) == {"once": "unchanged"}
        chores.prune()
    assert (stage.reader.schedule("once").status, len(stage.queued())) == ("completed", 1)
    assert stage.client.zscore(stage.keys.timetable, "once") is None


def test_a_job_in_no_list_is_put_back_at_the_second_look(stage: Stage, chores: RedisChores) -> None:
    schedule = stage.add(catchup_limit=3, overlap="allow")
    stage.commit(stage.plan(schedule))
    lost, *others = stage.queued()
    stage.client.lrem(stage.keys.rq_queue("work"), 1, lost)
    assert chores.reconcile() == []
    stage.client.zincrby(stage.keys.suspects, -PATIENCE_MS, lost)
    assert chores.reconcile() == [lost]
    assert stage.queued() == [lost, *others]
    assert chores.reconcile() == []


@pytest.mark.parametrize("status", ["started", "finished", "failed", "canceled", None])
def test_a_job_that_has_begun_or_ended_is_left_alone(stage: Stage, chores: RedisChores, status: str | None) -> None:
    schedule = stage.add(catchup_limit=2, overlap="allow")
    stage.commit(stage.plan(schedule))
    taken, *_ = stage.queued()
    stage.client.lrem(stage.keys.rq_queue("work"), 1, taken)
    if status is None:
        stage.client.delete(stage.keys.rq_job(taken))
    else:
        stage.client.hset(stage.keys.rq_job(taken), "status", status)
    for _ in range(2):
        assert chores.reconcile() == []
        stage.client.zincrby(stage.keys.suspects, -PATIENCE_MS, taken)
    assert taken not in stage.queued()
    assert stage.client.zscore(stage.keys.live_prefix + "work", taken) is None


def test_a_job_that_a_worker_holds_is_left_alone(stage: Stage, chores: RedisChores) -> None:
    schedule = stage.add(catchup_limit=2, overlap="allow")
    stage.commit(stage.plan(schedule))
    stage.client.lmove(stage.keys.rq_queue("work"), stage.keys.rq_taken("work"))
    for _ in range(2):
        assert chores.reconcile() == []


def test_wd_delayed_retry_never(stage: Stage) -> None:
    """A delayed job goes to its queue when it is due, once, whoever promotes and however many do."""
    promoters = [Promoter(stage.client, stage.keys) for _ in range(3)]
    with using_outbox(RedisOutbox(stage.client, stage.keys)):
        handle = Administered.options(delay=0.05).dispatch()
    assert sum(promote(polite=False) for promote in promoters) == 0
    time.sleep(0.06)
    assert sum(promote(polite=False) for promote in promoters) == 1
    assert stage.queued() == [handle.id]


def test_a_polite_promoter_leaves_when_somebody_else_did(stage: Stage) -> None:
    promote = Promoter(stage.client, stage.keys)
    with using_outbox(RedisOutbox(stage.client, stage.keys)):
        Administered.options(delay=0.001).dispatch()
    time.sleep(0.005)
    stage.client.set(stage.keys.promoted, "1", px=60_000)
    assert (promote(polite=True), promote(polite=False)) == (0, 1)


def test_wd_delayed_retry_never_a_polite_promoter_goes_on_by_itself(stage: Stage) -> None:
    """One that left when it saw its own mark came by every third second."""
    first, second = Promoter(stage.client, stage.keys), Promoter(stage.client, stage.keys)
    assert first(polite=True) == 0
    with using_outbox(RedisOutbox(stage.client, stage.keys)):
        Administered.options(delay=0.001).dispatch()
    time.sleep(0.005)
    assert (second(polite=True), first(polite=True)) == (0, 1)


def test_a_running_job_that_was_replaced_is_told_to_stop_until_it_has(stage: Stage, chores: RedisChores) -> None:
    key = stage.keys.rq_job("old")
    stage.client.hset(key, mapping={"status": "started", "worker_name": "w1"})
    stage.client.zadd(stage.keys.stopping, {"old": 1})
    with stage.client.pubsub() as channel:
        channel.subscribe(f"{stage.keys.rq_channel_prefix}w1")
        channel.get_message(timeout=1)
        assert (chores.stop_replaced(), chores.stop_replaced()) == (1, 1)
        assert channel.get_message(timeout=1)["data"] in (
            b'{"command":"stop-job","job_id":"old"}',
            b'{"job_id":"old","command":"stop-job"}',
        )
    stage.client.hset(key, "status", "stopped")
    assert (chores.stop_replaced(), stage.client.zcard(stage.keys.stopping)) == (0, 0)


def test_the_beat_audits_a_few_schedules_at_a_time(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    schedule = stage.add(catchup_limit=5, overlap="allow")
    stage.add("other")
    stage.commit(stage.plan(schedule, until=-10_000))
    stage.commit(stage.plan(schedule))
    look = SelfAudit(stage.reader)
    assert [look() for _ in range(4)] == [0, 0, 0, 0]
    own = stage.keys.ledger_prefix + "s"
    stage.client.lrem(own, 1, stage.client.lindex(own, 3))
    assert sum(look() for _ in range(2)) == 1
    assert "1 nominal times" in caplog.text


def test_a_mended_gap_is_no_finding_any_more(stage: Stage) -> None:
    schedule = stage.add(catchup_limit=5, overlap="allow")
    stage.commit(stage.plan(schedule))
    own = stage.keys.ledger_prefix + "s"
    stage.client.lrem(own, 1, stage.client.lindex(own, 3))
    (finding,) = findings(stage.reader, "s")
    stage.admin.mend(finding)
    assert findings(stage.reader, "s") == []
    assert stage.ledger("s")[-1].reason == "error"


@pytest.mark.parametrize("change", ["cancel", "remove"])
def test_a_waiting_fire_of_a_schedule_that_goes_is_missed_and_never_sent(stage: Stage, change: str) -> None:
    schedule = stage.add(overlap="buffer", catchup_limit=1)
    stage.client.zadd(stage.keys.outstanding_prefix + "s", {"old": 1})
    stage.client.hset(stage.keys.rq_job("old"), "status", "started")
    stage.commit(stage.plan(schedule))
    getattr(stage.admin, change)("s")
    stage.client.hset(stage.keys.rq_job("old"), "status", "finished")
    assert stage.timetable.release_waiting(stage.lease) == []
    assert stage.queued() == []
    assert (stage.ledger()[-1].outcome, stage.ledger()[-1].reason) == ("missed", "error")


def test_a_replaced_job_that_is_to_be_tried_again_is_canceled(stage: Stage, chores: RedisChores) -> None:
    key = stage.keys.rq_job("old")
    stage.client.hset(key, mapping={"status": "scheduled", "origin": "work"})
    stage.client.zadd(stage.keys.rq_registry("scheduled", "work"), {"old": 1})
    stage.client.zadd(stage.keys.stopping, {"old": 1})
    assert chores.stop_replaced() == 0
    assert stage.client.hget(key, "status") == b"canceled"
    assert Promoter(stage.client, stage.keys)(polite=False) == 0


def test_a_key_of_the_wrong_type_leaves_a_pause_as_it_is(stage: Stage) -> None:
    schedule = stage.add()
    stage.admin.pause("s")
    stage.client.set(stage.keys.stats_prefix + "s", "text")
    with pytest.raises(StoreRefusedError, match="stats"):
        stage.admin.resume("s")
    assert (stage.reader.schedule("s").status, stage.ledger()) == ("paused", [])
    stage.client.delete(stage.keys.stats_prefix + "s")
    assert stage.admin.resume("s")
    assert stage.client.zscore(stage.keys.timetable, "s") is not None
    assert stage.cursor(schedule) >= stage.now


def test_one_pause_that_can_not_be_ended_does_not_hold_up_the_others(stage: Stage) -> None:
    for name in ("bad", "good"):
        stage.add(name)
        stage.admin.pause(name, until=SystemClock().now_ms() + 1)
    stage.client.hset(stage.keys.schedule_prefix + "bad", "definition", b"\xc1")
    time.sleep(0.01)
    assert stage.admin.resume_due() == 1
    assert stage.reader.schedule("good").status == "active"
    assert stage.admin.resume_due() == 0


def test_a_changed_trigger_leaves_nothing_undecided(stage: Stage) -> None:
    """What the old rule had due and undecided is one missed range; the new rule starts from now."""
    stage.add()
    stage.admin.upsert([build(Administered, IntervalTrigger(300), {"id": "s"})])
    (entry,) = stage.ledger()
    assert (entry.outcome, entry.reason) == ("missed", "misfire")
    assert entry.count in {60, 61}


def test_a_date_moved_into_the_past_is_completed(stage: Stage) -> None:
    stage.admin.upsert([made(trigger=DateTrigger((stage.now + 60_000) / 1000))])
    stage.admin.upsert([made(trigger=DateTrigger((stage.now - 60_000) / 1000))])
    assert stage.reader.schedule("s").status == "completed"


def test_a_schedule_whose_key_is_something_else_does_not_hold_up_the_others(stage: Stage) -> None:
    stage.client.set(stage.keys.schedule_prefix + "bad", "text")
    schedules = [build(Administered, IntervalTrigger(60), {"id": name}) for name in ("bad", "good")]
    assert stage.admin.upsert(schedules) == {"bad": "refused", "good": "added"}
    assert stage.client.get(stage.keys.schedule_prefix + "bad") == b"text"
    assert stage.client.zscore(stage.keys.timetable, "bad") is None
