"""`rqbeat queues`: depth and what stands behind it."""

from __future__ import annotations

from collections import defaultdict, deque

import click

from scheduler.cli.cells import clean
from scheduler.cli.common import as_json, print_json, print_table, redis_options, settings, span, table
from scheduler.cli.screen import Screen
from scheduler.wiring import open_client
from shared.clock import SystemClock
from shared.redisio.queues import QueueView
from shared.redisio.queues import queues as read_queues

BARS = "▁▂▃▄▅▆▇█"
HEADINGS = (
    "QUEUE",
    "DEPTH",
    "TAKEN",
    "RUNNING",
    "SCHEDULED",
    "DEFERRED",
    "FAILED",
    "EXPIRED",
    "FINISHED",
    "OLDEST",
    "WORKERS",
)


@click.command()
@click.option("--watch", is_flag=True, help="Keep them on the screen, with a sparkline of the depth, until Ctrl-C.")
@as_json
@redis_options
def queues(url: str | None, namespace: str | None, *, watch: bool, as_json: bool) -> None:
    """All queues in numbers. Reading moves no job."""
    found = settings(url, namespace)
    client, clock = open_client(found), SystemClock()
    if as_json:
        print_json({"queues": [view.to_json() for view in read_queues(client, found.keys, clock)]})
        return
    if not watch:
        _print(read_queues(client, found.keys, clock))
        return
    depths: dict[str, deque[int]] = defaultdict(lambda: deque(maxlen=30))
    with Screen() as screen:
        while True:
            views = read_queues(client, found.keys, clock)
            for view in views:
                depths[view.name].append(view.depth)
            rows = [[*row, sparkline(depths[str(row[0])])] for row in queue_rows(views)]
            screen.draw(table((*HEADINGS, "DEPTH OVER 30s"), rows))
            clock.sleep(1)


def _print(views: list[QueueView]) -> None:
    print_table(HEADINGS, queue_rows(views))
    for view in views:
        if view.error:
            click.echo(clean(f"{view.name}: can't be read in full: {view.error}"), err=True)


def queue_rows(views: list[QueueView]) -> list[list[object]]:
    """The rows of `queues`."""
    return [
        [
            view.name,
            view.depth,
            view.taken,
            view.running,
            view.scheduled,
            view.deferred,
            view.failed,
            view.expired,
            view.finished,
            None if view.oldest_age_s is None else span(view.oldest_age_s),
            view.workers,
        ]
        for view in views
    ]


def sparkline(values: deque[int]) -> str:
    """Values as bars, the highest as a full one."""
    most = max(values, default=0) or 1
    return "".join(BARS[value * (len(BARS) - 1) // most] for value in values)
