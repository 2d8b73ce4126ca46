"""Job ids that follow from schedules, and the keys of a namespace."""

from __future__ import annotations

import re

import pytest

from shared.errors import ConfigurationError
from shared.ids import check_schedule_id, fire_job_id
from shared.keys import Keys


@pytest.mark.parametrize(
    "schedule_id", ["a:b", "a b", "naïve", "日本", "a.b", "../x", "2026-01-01T00:00:00+00:00", "x" * 200]
)
def test_key_charset(schedule_id: str) -> None:
    assert check_schedule_id(schedule_id) == schedule_id
    assert re.fullmatch(r"[A-Za-z0-9_-]+", fire_job_id(schedule_id, 1_700_000_000_000))


def test_distinct_schedules_have_distinct_job_ids() -> None:
    names = ["a:b", "a-b", "a b", "a.b", "日本", "日木", "x" * 199, "x" * 200]
    assert len({fire_job_id(name, 1) for name in names}) == len(names)


@pytest.mark.parametrize("schedule_id", ["", "x" * 201, "a\x00b", "a\nb", "a\ud800", 7, None])
def test_ids_that_name_nothing_are_refused(schedule_id: object) -> None:
    with pytest.raises(ConfigurationError):
        check_schedule_id(schedule_id)


def test_the_form_of_a_job_id_is_fixed() -> None:
    assert fire_job_id("daily-report", 1_700_000_000_000) == "daily-report-e91bf0bd726d98dc-1700000000000"
    assert fire_job_id("a:b", 5, "manual", "r1").endswith("-5-mr1")
    assert fire_job_id("a:b", 5, "backfill", "r1").endswith("-5-br1")
    assert fire_job_id("a:b", 5, "catchup") == fire_job_id("a:b", 5)


def test_a_namespace_prefixes_every_key_of_both_kinds() -> None:
    keys = Keys.for_namespace("shop")
    ours = [keys.timetable, keys.ledger, keys.leader, keys.fired_prefix, keys.presence("beat", "h:1")]
    theirs = [keys.rq_queues, keys.rq_job("x"), keys.rq_registry("wip", "q"), keys.rq_taken("q")]
    assert all(key.startswith("shop:rqbeat:") for key in ours)
    assert all(key.startswith("shop:rq:") for key in theirs)


def test_without_a_namespace_rqs_keys_are_its_own() -> None:
    assert Keys.for_namespace("").rq_queue("mail") == "rq:queue:mail"


def test_a_namespace_that_rq_could_not_use_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="namespace"):
        Keys.for_namespace("a b")
