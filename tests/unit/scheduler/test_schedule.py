"""Schedules as data: what is refused when it is written, what a definition keeps, how long a dedupe key lives."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from scheduler.schedule import build, pack_definition, unpack_definition
from scheduler.triggers import CronTrigger, DateTrigger, IntervalTrigger
from shared import Job, Retry
from shared.errors import ConfigurationError, PayloadError


class Mail(Job):
    name = "schedule-mail"
    queue = "mail"
    expires_in = 900
    retry = Retry(max=2, backoff=5)

    def handle(self, region: str = "eu", copies: int = 1) -> None: ...


def test_a_definition_comes_back_equal() -> None:
    schedule = build(
        Mail,
        CronTrigger("0 6 * * *", timezone="Europe/Paris"),
        {"kwargs": {"region": "us"}, "tags": ["daily"], "misfire": "all", "retry": Retry(3, on=(OSError,))},
    )
    assert unpack_definition(pack_definition(schedule)) == schedule


def test_equal_schedules_have_equal_definitions() -> None:
    first = build(Mail, IntervalTrigger(60), {"kwargs": {"region": "us", "copies": 2}})
    assert pack_definition(first) == pack_definition(
        build(Mail, IntervalTrigger(60), {"kwargs": {"region": "us", "copies": 2}})
    )


def test_the_id_defaults_to_the_jobs_name() -> None:
    assert build(Mail, IntervalTrigger(60), {}).id == "schedule-mail"


def test_dates_of_one_job_have_ids_of_their_own_that_outlive_a_restart() -> None:
    at = 1_800_000_000
    ids = {build(Mail, DateTrigger(at), {"kwargs": {"region": region}}).id for region in ("eu", "us", "eu")}
    assert len(ids) == 2


def test_job_attributes_are_defaults_that_a_schedule_overrides() -> None:
    schedule = build(Mail, IntervalTrigger(60), {"timeout": timedelta(minutes=5)})
    assert (schedule.options.queue, schedule.options.timeout) == ("mail", 300)
    assert (schedule.policy.expires_in, schedule.call.retry) == (900_000, Mail.retry)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"misfre": "all"}, "did you mean 'misfire'"),
        ({"misfire": "most"}, "latest, all, earliest, skip"),
        ({"queue": ""}, "queue"),
        ({"queue": "a:b"}, "queue"),
        ({"quue": "a"}, "did you mean 'queue'"),
        ({"catchup_limit": 0}, "catchup_limit"),
        ({"catchup_window": -1}, "catchup_window"),
        ({"catchup_window": float("nan")}, "catchup_window"),
        ({"overlap": "allow", "coalesce": True}, "overlap"),
        ({"id": ""}, "id"),
        ({"id": "a\nb"}, "control"),
        ({"id": "x" * 201}, "200"),
        ({"tags": "one"}, "tags"),
        ({"retry": 3}, "retry"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        build(Mail, IntervalTrigger(60), options)


@pytest.mark.parametrize("timeout", [0, 0.5, -1, "1h", 10**10, float("inf"), True])
def test_job_timeout_extremes(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        build(Mail, IntervalTrigger(60), {"timeout": timeout})


@pytest.mark.parametrize("args", [{"args": [1, 2, 3]}, {"kwargs": {"rgion": "eu"}}])
def test_arguments_that_handle_does_not_take_are_refused(args: dict[str, Any]) -> None:
    with pytest.raises(PayloadError, match=r"schedule-mail\.handle"):
        build(Mail, IntervalTrigger(60), args)


def test_pay_checked_at_load() -> None:
    with pytest.raises(PayloadError, match=r"kwargs\.region"):
        build(Mail, CronTrigger("0 0 1 1 *"), {"kwargs": {"region": object()}})


@pytest.mark.parametrize("coalesce", [True, False])
def test_coalesce_is_the_other_name_of_overlap(coalesce: bool) -> None:
    policy = build(Mail, IntervalTrigger(60), {"coalesce": coalesce, "max_instances": 3}).policy
    assert (policy.overlap, policy.instances) == ("skip" if coalesce else "allow", 3)


def test_instances_are_one_unless_overlap_is_allowed_by_name() -> None:
    assert build(Mail, IntervalTrigger(60), {}).policy.instances == 1
    assert build(Mail, IntervalTrigger(60), {"coalesce": False}).policy.instances == 1
    assert build(Mail, IntervalTrigger(60), {"overlap": "allow"}).policy.instances == 0


@pytest.mark.parametrize(
    ("seconds", "window", "ttl_s"), [(3600, 3600, 3660), (60, 86_400, 86_460), (1, 3600, 600), (5, 120, 180)]
)
def test_key_ttl_boundaries(seconds: int, window: int, ttl_s: int) -> None:
    """Window and a minute; at most ten minutes for what fires more often than once a minute."""
    schedule = build(Mail, IntervalTrigger(seconds), {"catchup_window": window})
    assert schedule.dedupe_ttl == ttl_s * 1000


async def wrap(handler: Any, job: Any, mark: str = "") -> Any:
    return handler


def test_lambdas_and_partials_of_two_schedules_do_not_swap() -> None:
    """What has no place of its own goes by the schedule and its position, the same in every process."""
    first = build(Mail, IntervalTrigger(60), {"id": "one", "middleware": [lambda h, j: wrap(h, j, "1"), partial(wrap)]})
    second = build(Mail, IntervalTrigger(60), {"id": "two", "middleware": [lambda h, j: wrap(h, j, "2"), wrap]})
    assert first.call.middleware == ("one#0", "one#1")
    assert second.call.middleware == ("two#0", f"{__name__}.wrap")


def test_middleware_that_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="middleware"):
        build(Mail, IntervalTrigger(60), {"middleware": [5]})
