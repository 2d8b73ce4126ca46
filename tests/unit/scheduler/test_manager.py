"""Declaring schedules, by call and by decorator."""

from __future__ import annotations

import pytest

from scheduler import CronTrigger, IntervalTrigger, JobStatus, SchedulerManager
from scheduler.testing import ManualClock
from shared import Job
from shared.errors import AlreadyExistsError, ConfigurationError, NotFoundError


class Sweep(Job):
    name = "manager-sweep"

    def handle(self, depth: int = 1) -> int:
        return depth


def clean_up() -> str:
    return "clean"


@pytest.fixture
def manager() -> SchedulerManager:
    return SchedulerManager(clock=ManualClock(wall_ms=1_700_000_000_000))


def test_a_declared_schedule_is_listed_and_found(manager: SchedulerManager) -> None:
    declared = manager.schedule(Sweep, IntervalTrigger(60), id="sweep")
    assert manager.get("sweep") is declared
    assert manager.list() == [declared]
    assert manager.get("other") is None


def test_a_version_is_text() -> None:
    with pytest.raises(ConfigurationError, match=r'version: text such as "1\.4\.2", got 20261130'):
        SchedulerManager(version=20261130)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["every", "cron"])
def test_a_decorator_that_was_not_called_is_told(manager: SchedulerManager, name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"@scheduler.{name} needs its rule: @scheduler.{name}\\("):
        getattr(manager, name)(clean_up)


def test_a_decorated_function_becomes_a_job_and_stays_callable(manager: SchedulerManager) -> None:
    declared = manager.every(300)(clean_up)
    assert declared() == "clean"
    assert declared.schedule.call.job == f"{__name__}.clean_up"
    assert declared.next_run_time == 1_700_000_100


def test_a_cron_decorator_takes_zone_and_options(manager: SchedulerManager) -> None:
    declared = manager.cron("0 9 * * 1-5", timezone="Europe/Paris", queue="slow")(clean_up)
    assert (declared.trigger.timezone, declared.schedule.options.queue) == ("Europe/Paris", "slow")


def test_decorators_stack(manager: SchedulerManager) -> None:
    manager.cron("0 9 * * *", id="morning")(manager.every(60, id="often")(clean_up))
    assert [job.id for job in manager.list()] == ["often", "morning"]


def test_a_second_schedule_of_the_same_job_needs_its_own_id(manager: SchedulerManager) -> None:
    manager.schedule(Sweep, IntervalTrigger(60))
    with pytest.raises(AlreadyExistsError, match="manager-sweep"):
        manager.schedule(Sweep, IntervalTrigger(30))


def test_lambdas_and_local_functions_are_refused(manager: SchedulerManager) -> None:
    def local() -> None: ...

    for function in (local, lambda: None):
        with pytest.raises(ConfigurationError, match="top level"):
            manager.every(60)(function)


def test_unconnected_changes_edit_the_declaration(manager: SchedulerManager) -> None:
    declared = manager.schedule(Sweep, IntervalTrigger(60), id="sweep")
    declared.pause()
    assert (declared.status, declared.next_run_time) == (JobStatus.PAUSED, None)
    assert manager.list(JobStatus.ACTIVE) == []
    declared.resume()
    assert declared.status is JobStatus.ACTIVE
    manager.remove("sweep")
    assert (manager.list(), declared.status) == ([], JobStatus.CANCELLED)


def test_changing_what_is_not_declared_says_so(manager: SchedulerManager) -> None:
    with pytest.raises(NotFoundError, match="nothing"):
        manager.pause("nothing")


def test_a_bad_expression_is_refused_where_it_is_written(manager: SchedulerManager) -> None:
    with pytest.raises(ConfigurationError, match="minute"):
        manager.cron("61 * * * *")(clean_up)


def test_to_dict_names_trigger_and_status(manager: SchedulerManager) -> None:
    shown = manager.schedule(Sweep, CronTrigger("0 * * * *"), id="hourly").to_dict()
    assert (shown["id"], shown["status"], shown["trigger"], shown["coalesce"]) == (
        "hourly",
        "active",
        "CronTrigger",
        True,
    )
