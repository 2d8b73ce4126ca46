"""One run from end to end: results, context, retries, deadlines, middleware, once-marks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import bench_jobs as jobs
import pytest
import redis

from shared.errors import JobFailedError
from shared.keys import Keys
from shared.options import JobOptions
from shared.outbox import current_outbox
from shared.payload import Call, FireContext, data_of
from shared.redisio.records import job_fields, stamp
from shared.redisio.runs import Runs
from shared.retry import Retry

VALUES = [
    datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Paris")),
    date(2026, 2, 28),
    timedelta(microseconds=1),
    Decimal("1.10"),
    uuid.UUID(int=7),
    {1, 2},
    (1, (2,)),
    [None, True, 2**63, b"\x00\xff", "é🙂\x00"],
    {"nested": {"deep": [Decimal(1)]}},
]


def fire(client: redis.Redis, keys: Keys, name: str, **about: Any) -> str:
    """Enqueue a job as the commit does for a schedule."""
    job_id = f"fired-{uuid.uuid4().hex}"
    now = time.time_ns() // 1_000_000
    named = {part: about.pop(part) for part in ("args", "retry", "middleware") if part in about}
    call, options = Call(job=name, **named), about.pop("options", JobOptions())
    context = FireContext(**{"kind": "scheduled", "enqueued": now, "schedule": "nightly", "nominal": now, **about})
    fields = job_fields(name, options, call.retry)
    times = ["created_at", stamp(now), "enqueued_at", stamp(now)]
    client.hset(keys.rq_job(job_id), items=[*fields, *times, "status", "queued", "data", data_of(call, context)])
    client.sadd(keys.rq_queues, keys.rq_queue("default"))
    client.rpush(keys.rq_queue("default"), job_id)
    return job_id


def test_pay_datetime_pay_decimal_uuid_set_tuple_a_worker_echoes_value_and_type(workers: Any) -> None:
    workers.start("default")
    handles = [job.dispatch(value) for value in VALUES for job in (jobs.Sync, jobs.Async)]
    echoed = [handle.result(20) for handle in handles]
    assert [value for value in VALUES for _ in range(2)] == echoed
    assert [type(value) for value in VALUES for _ in range(2)] == [type(value) for value in echoed]


def test_pay_return_value_that_cant_travel_is_dropped_and_the_job_runs_once(
    workers: Any, effects: Callable[[str], list[str]]
) -> None:
    workers.start("default")
    assert jobs.Unportable.dispatch().result(10) is None
    assert len(effects("unportable")) == 1


def test_a_run_knows_its_fire(workers: Any, client: redis.Redis, keys: Keys) -> None:
    workers.start("default")
    before = time.time()
    job_id = fire(client, keys, "about", deadline=2_000_000_000_500)
    handle = jobs.About.dispatch()
    about = handle.result(10)
    assert {"key": handle.id, "attempt": 1, "schedule": None, "nominal": None, "kind": "dispatch", "deadline": None,
            "last_error": None, "checkpoint": {}} == about  # fmt: skip
    fired = current_outbox().result(job_id, 10)
    assert (fired["schedule"], fired["kind"], fired["deadline"]) == ("nightly", "scheduled", 2_000_000_000.5)
    assert before - 0.001 <= fired["nominal"] <= time.time()


def test_wd_delayed_retry_never_is_promoted_by_the_worker_without_any_beat(
    workers: Any, effects: Callable[[str], list[str]], status: Callable[[str], str | None], eventually: Any
) -> None:
    workers.start("default")
    handle = jobs.Flaky.dispatch()
    eventually(lambda: status(handle.id) == "failed", 20)
    assert [handle.id] * 3 == effects("failing")
    with pytest.raises(JobFailedError, match="ValueError: no luck"):
        handle.result()


def test_an_error_that_the_rule_does_not_cover_is_not_retried(
    workers: Any, effects: Callable[[str], list[str]], status: Callable[[str], str | None], eventually: Any
) -> None:
    workers.start("default")
    handle = jobs.Picky.dispatch()
    eventually(lambda: status(handle.id) == "failed")
    assert len(effects("failing")) == 1


def test_an_expired_job_never_runs_and_says_so(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, status: Any, reason: Any, eventually: Any
) -> None:
    handle = jobs.Perishable.options(expires_in=0.01).dispatch()
    time.sleep(0.05)
    workers.start("default", "--burst").wait(20)
    assert status(handle.id) == "failed"
    assert reason(handle.id).startswith("expired: its deadline ")
    assert ([], [handle.id]) == (effects("perishable"), effects("on_expired"))
    failed_until = client.zscore(keys.rq_registry("failed", "default"), handle.id)
    assert failed_until == client.zscore(f"{keys.expired_prefix}default", handle.id) is not None


def test_poison_bad_deploy_an_unknown_job_fails_without_using_its_retries_and_runs_after_the_fix(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, reason: Any
) -> None:
    job_id = fire(client, keys, "syncc", retry=Retry(max=2, backoff=60))
    workers.start("default", "--burst").wait(20)
    assert status(job_id) == "failed"
    assert reason(job_id) == "no job is registered as 'syncc'; did you mean 'sync'?"
    assert client.zcard(keys.rq_scheduled_prefix + "default") == 0


def test_the_end_of_a_run_counts_for_its_schedule(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, eventually: Any
) -> None:
    client.hset(keys.schedule_prefix + "nightly", "rev", 1)
    ids = [fire(client, keys, name, retry=rule) for name, rule in (
        ("sync", None), ("failing", None), ("flaky", Retry(max=1)), ("perishable", None))]  # fmt: skip
    old = fire(client, keys, "perishable", deadline=1)
    client.zadd(keys.outstanding_prefix + "nightly", dict.fromkeys([*ids, old], 1))
    workers.start("default", "--burst").wait(30)
    stats = {name.decode(): int(value) for name, value in client.hgetall(keys.stats_prefix + "nightly").items()}
    assert time.time() * 1000 - stats.pop("last_run") < 60_000
    # sync, failing, flaky twice, perishable; the expired one counts apart and is no error
    assert stats == {"runs": 5, "errors": 3, "failures": 1, "expired": 1}
    assert client.zcard(keys.outstanding_prefix + "nightly") == 0


def test_middleware_of_the_schedule_is_outside_that_of_the_class(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, eventually: Any
) -> None:
    workers.start("default")
    fire(client, keys, "wrapped", middleware=("shouting",))
    eventually(lambda: len(effects("order")) == 3)
    assert effects("order") == ["schedule", "class", "handler"]


def test_quick_retries_happen_inside_one_attempt(workers: Any, effects: Any) -> None:
    workers.start("default")
    assert jobs.QuickRetry.dispatch().result(10) == 1
    assert len(effects("tries")) == 3


@pytest.mark.parametrize(
    ("kill_at", "mails", "attempt"),
    [("before", 1, 2), ("after", 1, 2), ("raise", 2, 2), ("nowhere", 1, 1)],
)
def test_once_outside_of_the_block_the_effect_happens_once(
    workers: Any, effects: Any, kill_at: str, mails: int, attempt: int
) -> None:
    workers.start("default")
    handle = jobs.Mailer.dispatch(kill_at)
    assert f"attempt {attempt}" == handle.result(10)
    assert [handle.id] * mails == effects("mail")


def test_once_killed_inside_ends_in_doubt_and_is_not_retried(
    workers: Any, effects: Any, status: Any, reason: Any, eventually: Any
) -> None:
    workers.start("default")
    handle = jobs.Mailer.dispatch("inside")
    eventually(lambda: status(handle.id) == "failed")
    assert len(effects("mail")) == 1
    eventually(lambda: "an earlier attempt was cut off inside the block" in reason(handle.id))


@pytest.mark.parametrize(("on_doubt", "mails"), [("skip", 1), ("repeat", 2)])
def test_once_in_doubt_by_choice(workers: Any, effects: Any, on_doubt: str, mails: int) -> None:
    workers.start("default")
    assert jobs.Mailer.dispatch("inside", on_doubt).result(10) == "attempt 2"
    assert mails == len(effects("mail"))


def test_a_group_of_errors_is_told_by_its_own_line(workers: Any, status: Any, reason: Any, eventually: Any) -> None:
    workers.start("default")
    handle = jobs.Grouped.dispatch()
    eventually(lambda: reason(handle.id) == "ExceptionGroup: two at once (2 sub-exceptions)")
    with pytest.raises(JobFailedError, match="two at once"):
        handle.result()


def test_a_once_mark_entered_again_by_its_own_claim_is_first(client: redis.Redis, keys: Keys) -> None:
    """The reply to the first was lost."""
    runs = Runs(client, keys)
    assert [runs.enter_once("job", "mail", claim, 60, "raise") for claim in ("a", "a", "b")] == [
        "first",
        "first",
        "doubt",
    ]


def test_a_checkpoint_survives_kills(workers: Any, effects: Any) -> None:
    workers.start("default")
    assert jobs.Resuming.dispatch().result(15) == [3, 3]
    assert effects("page") == ["1", "2", "3"]


def test_sec_args_in_logs_are_nowhere(workers: Any, client: redis.Redis, keys: Keys) -> None:
    workers.start("default")
    handle = jobs.Sync.dispatch({"password": "S3CRET"})
    handle.result(10)
    failing = jobs.Slow.dispatch("S3CRET")
    with pytest.raises(JobFailedError):
        failing.result(10)
    assert "S3CRET" not in workers.log()
    assert client.hget(keys.rq_job(handle.id), "description") == b"sync"


def test_rqs_own_tools_read_and_requeue_our_jobs(
    workers: Any, client: redis.Redis, keys: Keys, status: Any, eventually: Any
) -> None:
    from rq import Queue
    from rq.job import Job
    from rq.registry import FailedJobRegistry
    from rq.results import Result

    handle = jobs.Failing.dispatch()
    fine = jobs.Sync.dispatch(None)
    workers.start("default", "--burst").wait(20)
    queue = Queue("default", connection=client)
    assert (Job.fetch(fine.id, connection=client).get_status(), queue.finished_job_registry.count) == ("finished", 1)
    failed = Job.fetch(handle.id, connection=client).latest_result()
    assert failed is not None
    assert (failed.type, "ValueError: no luck" in failed.exc_string) == (Result.Type.FAILED, True)
    FailedJobRegistry(queue=queue).requeue(handle.id)
    workers.start("default", "--burst").wait(20)
    assert (status(handle.id), client.hget(keys.rq_job(handle.id), "attempt")) == ("failed", b"2")


def test_a_job_whose_records_are_not_kept_leaves_none(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any
) -> None:
    kept = JobOptions(result_ttl=0, failure_ttl=0)
    ids = [fire(client, keys, "forgotten", args=(luck,), options=kept) for luck in (True, False, True)]
    assert workers.start("default", "--burst").wait(20) == 0
    assert effects("forgotten") == ids
    assert [client.exists(keys.rq_job(job_id)) for job_id in ids] == [0, 0, 0]
    assert list(client.scan_iter(f"{keys.rq}:results:*")) == []
