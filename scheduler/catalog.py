"""Loading the user's app: the manager that it names, or everything that is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scheduler.manager import Problem, SchedulerManager, collected_problems
from scheduler.scheduled_job import ScheduledJob
from scheduler.triggers import require_zone_data
from shared import registry
from shared.app import load_app
from shared.errors import ConfigurationError, RqbeatError


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What checking an app found."""

    schedules: int
    jobs: int
    problems: tuple[Problem, ...]


def load_manager(spec: str | None, folder: Path | None = None) -> SchedulerManager:
    """The manager that `module:attribute` names. Runs the module's code; raises ConfigurationError."""
    require_zone_data()
    found = load_app(spec, folder)
    if isinstance(found, ScheduledJob) or not isinstance(found, SchedulerManager):
        raise ConfigurationError(f"app {spec!r} is a {type(found).__name__}, not a SchedulerManager")
    return found


def check(spec: str | None, folder: Path | None = None) -> Checked:
    """Load an app and note everything that is wrong with it, instead of stopping at the first."""
    problems: list[Problem] = []
    token = collected_problems.set(problems)
    try:
        declared = len(load_manager(spec, folder).list())
    except RqbeatError as error:
        declared = 0
        problems.append(Problem(spec or "app", str(error)))
    finally:
        collected_problems.reset(token)
    return Checked(schedules=declared, jobs=len(registry.jobs.all()), problems=tuple(problems))
