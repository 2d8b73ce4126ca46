"""The usage patterns that the public names come from: registering, composing, steering, counting, testing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from scheduler import (
    CompoundLogic,
    CompoundTrigger,
    CronTrigger,
    DateTrigger,
    IntervalTrigger,
    JobStatus,
    SchedulerManager,
    setup_scheduler,
)
from scheduler.testing import eager
from shared import Job
from shared.errors import ConfigurationError
from shared.outbox import set_outbox


class DailyReport(Job):
    name = "usage-daily-report"
    queue = "reports"
    timeout = 300
    made: list[str]

    async def handle(self, region: str = "eu") -> dict[str, str]:
        return {"region": region}


def clean_temp_files() -> str:
    return "clean"


async def send_reminder() -> None: ...


# Testing triggers.


def test_interval_trigger() -> None:
    trigger = IntervalTrigger(seconds=60)
    now = time.time()
    next_fire = trigger.next_fire(now)
    assert next_fire is not None
    assert next_fire > now
    assert next_fire <= now + 60


def test_cron_trigger() -> None:
    next_fire = CronTrigger("0 9 * * *").next_fire(1718000000.0)
    assert next_fire is not None
    assert next_fire > 1718000000.0


def test_date_trigger_one_shot() -> None:
    trigger = DateTrigger(at=1718000000.0)
    first = trigger.next_fire(0)
    assert first == 1718000000.0
    assert trigger.next_fire(first) is None


# Testing the scheduler.


def test_scheduler_executes_job() -> None:
    async def executes() -> list[bool]:
        scheduler = SchedulerManager()
        executed: list[bool] = []

        async def my_job() -> None:
            executed.append(True)

        scheduler.schedule(my_job, IntervalTrigger(seconds=0.01))
        await scheduler.start()
        await asyncio.sleep(0.1)
        await scheduler.stop()

        assert len(executed) > 0
        return executed

    with eager():
        executed = asyncio.run(executes())
    assert len(executed) >= 3


def test_what_an_eager_job_raises_is_raised_by_stop() -> None:
    async def fails() -> None:
        scheduler = SchedulerManager()

        async def broken() -> None:
            raise RuntimeError("broken on purpose")

        scheduler.schedule(broken, IntervalTrigger(seconds=0.01))
        await scheduler.start()
        await asyncio.sleep(0.05)
        await scheduler.stop()

    with eager(), pytest.raises(RuntimeError, match="on purpose"):
        asyncio.run(fails())


def test_an_eager_dispatch_runs_at_once_and_has_a_result(eager_jobs: Any) -> None:
    handle = DailyReport.dispatch(region="us")
    assert (handle.status(), handle.result()) == ("finished", {"region": "us"})
    first, second = (DailyReport.options(dedupe_key="k").dispatch() for _ in range(2))
    assert (first.created, second.created, first.id) == (True, False, second.id)


# Registering.


def test_basic_scheduling() -> None:
    scheduler = SchedulerManager()
    hourly = scheduler.every(3600)(clean_temp_files)
    weekdays = scheduler.cron("0 9 * * 1-5", id="weekdays")(clean_temp_files)
    once = scheduler.schedule(send_reminder, DateTrigger(at=time.time() + 300))
    assert scheduler.list() == [hourly, weekdays, once]
    assert hourly() == "clean"
    assert once.next_run_time == pytest.approx(time.time() + 300, abs=5)


# Composing triggers.

FIVE_PAST = 1_700_000_000


@pytest.mark.parametrize(
    ("trigger", "gap"),
    [
        (CompoundTrigger([CronTrigger("0 * * * *"), IntervalTrigger(seconds=300)], CompoundLogic.AND), 3600),
        (CompoundTrigger([CronTrigger("0 * * * *"), IntervalTrigger(seconds=900)], CompoundLogic.OR), 900),
        (CompoundTrigger([CronTrigger("0 * * * *"), CronTrigger("* * * * 1-5")], CompoundLogic.AND), 3600),
    ],
)
def test_compound_triggers(trigger: CompoundTrigger, gap: int) -> None:
    first = trigger.next_fire(FIVE_PAST)
    assert first is not None
    assert first % gap == 0
    assert trigger.next_fire(first) == first + gap


def test_nested_compounds() -> None:
    inner = CompoundTrigger([IntervalTrigger(seconds=900), CronTrigger("0 * * * *")], CompoundLogic.OR)
    outer = CompoundTrigger([inner, CronTrigger("* * * * 1-5")], CompoundLogic.AND)
    days = {at.isoweekday() for at in outer.fire_times(FIVE_PAST, 1000)}
    assert days == {1, 2, 3, 4, 5}


# The life of a schedule.


def test_state_transitions() -> None:
    scheduler = SchedulerManager()
    job = scheduler.schedule(DailyReport, IntervalTrigger(60), id="report")
    job.pause()
    assert (job.status, job.next_run_time) == (JobStatus.PAUSED, None)
    job.resume()
    job.cancel()
    assert job.status is JobStatus.CANCELLED
    job.compute_next()
    assert job.next_run_time is None


def test_compute_next_counts_from_the_time_given() -> None:
    job = SchedulerManager().schedule(DailyReport, IntervalTrigger(60), id="report")
    job.compute_next(now=1_700_000_000.0)
    assert job.next_run_time == 1_700_000_040.0


async def shouting(handler: Callable[[], Awaitable[Any]], job: Any, *, mark: str = "!") -> Callable[[], Awaitable[Any]]:
    async def wrapped() -> Any:
        result = await handler()
        return {name: value.upper() + mark for name, value in result.items()}

    return wrapped


async def questioning(handler: Callable[[], Awaitable[Any]], job: Any) -> Callable[[], Awaitable[Any]]:
    return await shouting(handler, job, mark="?")


def test_run_applies_middleware_the_first_one_outermost() -> None:
    job = SchedulerManager().schedule(
        DailyReport, IntervalTrigger(60), id="report", middleware=[shouting, questioning], kwargs={"region": "us"}
    )
    assert asyncio.run(job.run()) == {"region": "US?!"}
    assert (job.runs, job.errors, job.current_instances) == (1, 0, 0)
    assert job.last_run_time is not None


def test_a_single_date_is_completed_by_its_run() -> None:
    job = SchedulerManager().schedule(DailyReport, DateTrigger(time.time() + 60), id="report")
    asyncio.run(job.run())
    assert job.status is JobStatus.COMPLETED
    assert asyncio.run(job.run()) is None


# Counting.


def test_stats_and_to_dict_have_the_known_keys() -> None:
    scheduler = SchedulerManager()
    scheduler.schedule(DailyReport, IntervalTrigger(60), id="one")
    scheduler.schedule(DailyReport, IntervalTrigger(60), id="two").pause()
    stats = scheduler.stats
    assert (stats.jobs_total, stats.jobs_active, stats.jobs_paused) == (2, 1, 1)
    assert (stats.runs_total, stats.errors_total, stats.uptime_seconds) == (0, 0, 0)
    shown = scheduler.list()[0].to_dict()
    assert {"id", "name", "status", "trigger", "next_run_time", "runs", "errors", "max_instances", "coalesce"} <= set(
        shown
    )
    assert {"next_run", "active_instances", "created_at"} <= set(shown)


def test_a_health_check_is_healthy_at_boot() -> None:
    stats = SchedulerManager().stats
    assert stats.errors_total <= stats.runs_total * 0.1


# Beside a web app.


class HookedApp:
    """The kind with a dict of state and two hooks."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}
        self.hooks: list[Callable[[], Awaitable[None]]] = []

    def on_startup(self, hook: Callable[[], Awaitable[None]]) -> None:
        self.hooks.append(hook)

    on_shutdown = on_startup


def test_setup_scheduler_on_an_app_with_hooks() -> None:
    app = HookedApp()
    manager = setup_scheduler(app)
    assert app.state["scheduler"] is manager
    assert setup_scheduler(app) is manager
    assert app.hooks == [manager.start, manager.stop]


def test_setup_scheduler_on_an_app_with_a_lifespan() -> None:
    events: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: Any) -> Any:
        events.append("app up")
        yield {}
        events.append("app down")

    app = SimpleNamespace(state=SimpleNamespace(), router=SimpleNamespace(lifespan_context=lifespan))
    manager = setup_scheduler(app)

    async def serve() -> None:
        async with app.router.lifespan_context(app):
            events.append(f"serving {manager.stats.uptime_seconds >= 0}")

    with eager():
        asyncio.run(serve())
    assert app.state.scheduler is manager
    assert setup_scheduler(app) is manager
    assert events == ["app up", "serving True", "app down"]


def test_setup_scheduler_on_something_else_says_so() -> None:
    with pytest.raises(ConfigurationError, match="state"):
        setup_scheduler(object())


def test_a_started_manager_steers_what_is_stored(redis_url: str) -> None:
    scheduler = SchedulerManager(url=redis_url)
    job = scheduler.schedule(DailyReport, IntervalTrigger(1), id="report", overlap="allow")

    async def live() -> None:
        await scheduler.start()
        await scheduler.apause("report", "too much")
        view = scheduler.view("report")
        assert view is not None
        assert (view.status, view.note) == ("paused", "too much")
        assert (scheduler.stats.jobs_paused, job.to_dict()["status"]) == (1, "paused")
        await scheduler.aresume("report")
        await scheduler.aremove("report")
        assert (scheduler.view("report"), scheduler.get("report")) == (None, None)
        await scheduler.stop()

    asyncio.run(live())
    set_outbox(None)
