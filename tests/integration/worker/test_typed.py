"""Typed jobs and large things, through real workers."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import redis
import typed_jobs as jobs

from shared.errors import JobFailedError, PayloadError
from shared.keys import Keys
from shared.options import JobOptions
from shared.payload import Call, FireContext, data_of
from shared.redisio.records import job_fields, stamp

APP = {"RQBEAT_APP": "typed_jobs:scheduler"}
ORDER = jobs.Order([jobs.Line("pen", Decimal("9.99")), jobs.Line("ink", Decimal(3), jobs.Colour.BLUE)],
                   datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip


def burst(workers: Any) -> None:
    assert workers.start("default", "--burst", **APP).wait(60) == 0, workers.log()


def test_dataclasses_and_enums_arrive_as_what_handle_says_and_results_are_plain_data(workers: Any) -> None:
    total = jobs.Total.dispatch({"a": ORDER, "b": ORDER}, colours={jobs.Colour.BLUE})
    echo = jobs.Echo.dispatch(ORDER, jobs.Colour.BLUE)
    burst(workers)
    assert total.result() == Decimal(6)
    plain = {"lines": [{"article": "pen", "price": Decimal("9.99"), "colour": "red"},
                       {"article": "ink", "price": Decimal(3), "colour": "blue"}],
             "at": datetime(2026, 1, 1, tzinfo=UTC)}  # fmt: skip
    assert echo.result() == {"order": plain, "colour": ["blue"]}


def test_what_no_longer_fits_is_one_clear_failure_and_is_not_retried(
    workers: Any, client: redis.Redis, keys: Keys, reason: Callable[[str], str], effects: Any
) -> None:
    """A payload from before the class lost a field, or from somebody else."""
    call = Call(job="echo", args=({"lines": [{"article": "a", "price": "1"}]},))
    fields = job_fields("echo", JobOptions(), jobs.Echo.retry)
    now = stamp(1_790_000_000_000)
    data = data_of(call, FireContext(kind="dispatch", enqueued=1))
    client.hset(
        keys.rq_job("odd"), items=[*fields, "created_at", now, "enqueued_at", now, "status", "queued", "data", data]
    )
    client.rpush(keys.rq_queue("default"), "odd")
    burst(workers)
    assert reason("odd").endswith("args.order.lines[0].price: expected Decimal, got '1'")
    assert (client.hget(keys.rq_job("odd"), "attempt"), effects("echo")) == (b"1", [])


def test_pay_checked_at_load_nothing_is_sent_of_what_cant_travel(client: redis.Redis, keys: Keys) -> None:
    wrong = dataclasses.replace(ORDER, lines=[*ORDER.lines, jobs.Line("cap", 1.5)])  # type: ignore[arg-type]
    with pytest.raises(PayloadError) as caught:
        jobs.Echo.dispatch_many([((ORDER,), {}), ((wrong,), {})])
    assert caught.value.path == "args.order.lines[2].price"
    assert client.llen(keys.rq_queue("default")) == 0


def test_pay_checked_at_load_check_finds_bad_arguments_of_a_schedule_due_in_a_month(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from scheduler import CronTrigger, SchedulerManager\n"
        "from typed_jobs import Echo, Line, Order\n"
        "scheduler = SchedulerManager()\n"
        "scheduler.schedule(Echo, CronTrigger('0 0 1 1 *'), id='new-year', args=[Order([Line('pen', 1.5)])])\n"
    )
    paths = ":".join(path for path in sys.path if path)
    done = subprocess.run(
        [sys.executable, "-m", "scheduler.cli", "check", "bad:scheduler"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    assert "args.order.lines[0].price: expected Decimal, got a float" in done.stdout + done.stderr


@pytest.mark.parametrize("what", ["bytes", "generator", "items", "unset"])
def test_pay_return_value_too_large_or_of_no_kind_runs_once_and_is_dropped(
    workers: Any, effects: Any, what: str
) -> None:
    handle = jobs.Endless.dispatch(what)
    burst(workers)
    assert (handle.status(), handle.result()) == ("finished", None)
    assert len(effects(f"endless-{what}")) == 1
    assert "its result is dropped" in workers.log()


def test_pay_large_error_text_is_cut_where_it_is_kept_and_where_it_is_logged(
    workers: Any, client: redis.Redis, keys: Keys
) -> None:
    handle = jobs.Endless.dispatch("error")
    burst(workers)
    with pytest.raises(JobFailedError) as caught:
        handle.result()
    assert len(str(caught.value)) < 1000
    kept = client.hgetall(keys.rq_job(handle.id))
    assert sum(len(name) + len(value) for name, value in kept.items()) < 100_000
    assert max(map(len, workers.log().splitlines())) < 10_000


def test_pay_unicode_a_worker_echoes_it_under_a_queue_of_any_alphabet(workers: Any) -> None:
    import bench_jobs

    values = ["🙂", "a\x00b", "𐍈", "مرحبا", b"\xff\xfe", {"ключ": "значение"}]
    handles = [bench_jobs.Sync.options(queue="почта").dispatch(value) for value in values]
    assert workers.start("почта", "--burst").wait(60) == 0, workers.log()
    assert [handle.result() for handle in handles] == values


def test_pay_int_keys_pay_big_int_never_leave_the_sender(client: redis.Redis, keys: Keys) -> None:
    import bench_jobs

    for value in ({1: "a"}, {"m": {2: 3}}, {None: 1}, {(1, 2): 3}, 2**64, -(2**63) - 1):
        with pytest.raises(PayloadError):
            bench_jobs.Sync.dispatch(value)
    assert client.llen(keys.rq_queue("default")) == 0


def rq(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("rq")), *arguments, "--url", url]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_pay_serializer_mismatch_rqs_own_commands_do_no_harm_with_or_without_ours(
    workers: Any, redis_url: str, client: redis.Redis, keys: Keys, effects: Any, status: Callable[[str], str | None]
) -> None:
    import bench_jobs

    handle = bench_jobs.Failing.dispatch()
    assert workers.start("default", "--burst").wait(60) == 0
    told = rq(redis_url, "info")
    assert (told.returncode, "default" in told.stdout) == (0, True), told.stderr
    for count, serializer in enumerate([[], ["--serializer", "worker.guard.PayloadSerializer"]], 2):
        done = rq(redis_url, "requeue", "--queue", "default", *serializer, handle.id)
        assert done.returncode == 0, done.stdout + done.stderr
        assert workers.start("default", "--burst").wait(60) == 0
        assert (status(handle.id), len(effects("failing"))) == ("failed", count)


def test_pay_serializer_mismatch_a_stock_worker_fails_a_job_and_runs_nothing(
    redis_url: str, client: redis.Redis, keys: Keys, effects: Any, status: Callable[[str], str | None]
) -> None:
    """Without our class and serializer RQ unpickles; what it finds is no pickle, and it says so."""
    import bench_jobs

    handle = bench_jobs.Sync.dispatch("x")
    done = rq(redis_url, "worker", "default", "--burst")
    assert (status(handle.id), effects("sync")) == ("failed", []), done.stderr
