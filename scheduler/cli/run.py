"""`rqbeat run`: the beat as a process."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from types import FrameType

import click

from scheduler.catalog import load_manager
from scheduler.cli.common import log_to_stderr, redis_options, settings
from scheduler.wiring import BeatService


@click.command()
@click.argument("app", required=False)
@redis_options
@click.option("--verbose", "-v", is_flag=True, help="Log every fire, also those on time.")
def run(app: str | None, url: str | None, namespace: str | None, *, verbose: bool) -> None:
    """Run the beat for APP (module:attribute): decide fires and enqueue their jobs.

    Any number may run on one Redis; one of them leads. SIGTERM or Ctrl-C ends it after the commit in hand.
    """
    log_to_stderr(logging.DEBUG if verbose else logging.INFO)
    found = settings(url, namespace, app)
    manager = load_manager(found.app)
    service = BeatService(found.of_app(manager), manager.schedules)
    stop_on_signals(service.stop)
    service.prepare()
    service.run()


def stop_on_signals(stop: Callable[[], None]) -> None:
    """Have SIGTERM and SIGINT call `stop`, which only sets a flag; a second one ends the process at once."""

    def first(signum: int, _frame: FrameType | None) -> None:
        signal.signal(signum, second)
        stop()

    def second(_signum: int, _frame: FrameType | None) -> None:
        os._exit(1)

    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, first)
