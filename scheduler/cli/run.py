"""`rqbeat run`: the beat as a process."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from functools import partial
from types import FrameType

import click

from scheduler.catalog import load_manager
from scheduler.cli.common import log_to_stderr, print_table, redis_options, settings
from scheduler.planner import Against, Fire, Plan
from scheduler.wiring import BeatService, plan_due
from shared.instants import iso
from shared.process import collect_seldom


@click.command()
@click.argument("app", required=False)
@redis_options
@click.option("--verbose", "-v", is_flag=True, help="Log every fire, also those on time.")
@click.option("--once", is_flag=True, help="Decide what is due now, then end; exit 1 if another beat leads.")
@click.option("--dry-run", is_flag=True, help="Only say what would be decided now of what is stored; changes nothing.")
def run(app: str | None, url: str | None, namespace: str | None, *, verbose: bool, once: bool, dry_run: bool) -> None:
    """Run the beat for APP (module:attribute): decide fires and enqueue their jobs.

    Any number may run on one Redis; one of them leads. SIGTERM or Ctrl-C ends it after the commit in hand.
    """
    log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    found = settings(url, namespace, app)
    manager = load_manager(found.app)
    if dry_run:
        _print_plans(plan_due(found.of_app(manager)))
        return
    service = BeatService(found.of_app(manager), manager.schedules)
    collect_seldom()
    stop_on_signals(service.stop)
    service.prepare()
    if once:
        service.run_once()
    else:
        service.run()


def _print_plans(plans: list[Plan]) -> None:
    rows = [row for made in plans for row in map(partial(_plan_row, made.schedule_id), made.decisions)]
    print_table(("SCHEDULE", "NOMINAL", "COUNT", "DECISION", "KIND"), rows)


def _plan_row(schedule_id: str, decision: Fire | Against) -> list[object]:
    match decision:
        case Fire():
            return [schedule_id, iso(decision.nominal), 1, "enqueue", decision.kind]
        case Against():
            told = f"{decision.outcome}({decision.reason})"
            return [schedule_id, iso(decision.nominal), decision.count, told, decision.kind]


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Have SIGTERM and SIGINT call `stop`, which only sets a flag; a second one ends the process at once."""

    def first(signum: int, _frame: FrameType | None) -> None:
        signal.signal(signum, second)
        stop()

    def second(_signum: int, _frame: FrameType | None) -> None:
        os._exit(1)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, first)
