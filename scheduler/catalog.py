"""Loading the user's app: the manager that it names, or everything that is wrong with it.

Checking loads an app twice: what it declares must not depend on when it is imported, or every restart would replace its
schedules by others (`DateTrigger(time.time() + 300)` at the top of a module).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from scheduler.explain import warnings_of
from scheduler.manager import Problem, SchedulerManager, collected_problems
from scheduler.schedule import Schedule, pack_definition
from scheduler.triggers import CronTrigger, require_zone_data
from shared import registry
from shared.app import load_app
from shared.errors import ConfigurationError, RqbeatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checking an app found: `problems` stop it, `warnings` are worth a look."""

    schedules: int
    jobs: int
    problems: tuple[Problem, ...]
    warnings: tuple[Problem, ...]


def load_manager(spec: str | None, folder: Path | None = None) -> SchedulerManager:
    """The manager that `module:attribute` names. Runs the module's code; raises ConfigurationError."""
    require_zone_data()
    found = load_app(spec, folder)
    if not isinstance(found, SchedulerManager):
        raise ConfigurationError(f"app {spec!r} is a {type(found).__name__}, not a SchedulerManager")
    return found


def check(spec: str | None, now: float, folder: Path | None = None) -> Checked:
    """Load an app and note everything that is wrong with it, instead of stopping at the first.

    `now` (epoch seconds) is for warnings about the year to come.
    """
    problems: list[Problem] = []
    token = collected_problems.set(problems)
    schedules: Mapping[str, Schedule] = {}
    warnings: list[Problem] = []
    try:
        with redirect_stdout(sys.stderr):  # what an app prints while it is imported is no part of a report
            schedules = _declared(spec, folder)
    except RqbeatError as error:
        problems.append(Problem(spec or "app", str(error)))
    finally:
        collected_problems.reset(token)
    if not problems:
        warnings = [*_warnings(schedules, now), *_unstable(schedules, _loaded_anew(spec, folder))]
    count = len(registry.jobs.all())
    return Checked(schedules=len(schedules), jobs=count, problems=tuple(problems), warnings=tuple(warnings))


def _declared(spec: str | None, folder: Path | None) -> Mapping[str, Schedule]:
    return {schedule.id: schedule for schedule in load_manager(spec, folder).schedules}


def _loaded_anew(spec: str | None, folder: Path | None) -> Mapping[str, Schedule] | None:
    """What the app declares when its module is imported again; None when it can't be, which is no fault of its."""
    name = (spec or "").partition(":")[0]
    first = sys.modules.pop(name, None)
    try:
        with redirect_stdout(sys.stderr):
            return _declared(spec, folder)
    except RqbeatError:
        return None
    finally:
        if first:
            sys.modules[name] = first


def _unstable(first: Mapping[str, Schedule], second: Mapping[str, Schedule] | None) -> Iterator[Problem]:
    if second is None:
        return
    told = (
        "differs from one import to the next, so each restart replaces it; for 'in five minutes' dispatch with delay="
    )
    for name in sorted(first.keys() | second.keys()):
        if name not in first or name not in second or pack_definition(first[name]) != pack_definition(second[name]):
            yield Problem(f"schedule {name}", told)


def _warnings(schedules: Mapping[str, Schedule], now: float) -> Iterator[Problem]:
    for name, schedule in schedules.items():
        for message in _warnings_of(schedule, now):
            yield Problem(f"schedule {name}", message)


def _warnings_of(schedule: Schedule, now: float) -> Iterator[str]:
    policy = schedule.policy
    if policy.misfire == "all" and policy.overlap == "skip":
        yield 'misfire="all" with overlap="skip": of several fires caught up at once all but the first are skipped'
    if policy.catchup_window < policy.misfire_grace:
        yield "its catchup_window is shorter than its misfire_grace: a fire may be missed for a moment's delay"
    try:
        has_more = schedule.trigger.next_ms(round(now * 1000)) is not None
    except RqbeatError as error:
        yield f"it can't be planned: {error}"
    else:
        if not has_more:
            yield "its trigger has no fire left"
    if isinstance(schedule.trigger, CronTrigger):
        yield from (text for text in warnings_of(schedule.trigger, now) if "wider than the field" in text)
