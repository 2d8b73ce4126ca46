"""`rqbeat worker`: options in, an exit code out. All it knows is how they map to an `Order`."""

from __future__ import annotations

import sys
from typing import Any

import click

from shared import installation, settings


@click.command(name="worker")
@click.argument("queues", nargs=-1, metavar="[QUEUE]...")
@click.option("--app", metavar="MODULE:ATTRIBUTE", help="The app whose jobs may run; else RQBEAT_APP.")
@click.option("-n", "--processes", type=click.IntRange(1, 1000), default=1, help="Processes for each queue.")
@click.option(
    "--mode",
    type=click.Choice(["fork", "pool"]),
    default="fork",
    show_default=True,
    help="A process for each job, or one that runs job after job.",
)
@click.option("--burst", is_flag=True, help="End when the queues are empty.")
@click.option("--max-jobs", type=click.IntRange(1), help="End after so many jobs, in each process.")
@click.option(
    "--max-jobs-per-child", type=click.IntRange(1), help="With `--mode pool`: a new child after so many jobs."
)
@click.option("--url", help="Redis; else RQBEAT_REDIS_URL, REDIS_URL.")
@click.option("--namespace", help="Prefix of all keys; else RQBEAT_NAMESPACE.")
def command(
    queues: tuple[str, ...],
    app: str | None,
    url: str | None,
    namespace: str | None,
    **asked: Any,
) -> None:
    """Run jobs of QUEUEs, by default of every queue that the app's jobs name, and of `default`.

    One queue per process. SIGTERM or Ctrl-C: finish the running job and end with 0; a second one: end now.
    """
    installation.check()
    if asked["max_jobs_per_child"] is not None and asked["mode"] == "fork":
        raise click.UsageError("--max-jobs-per-child needs --mode pool: with fork every job has a process of its own")
    from worker.runner import Order, serve  # noqa: PLC0415 - loads redis, which --help does not need

    found = settings.load({"url": url, "namespace": namespace, "app": app})
    sys.exit(serve(Order(settings=found, queues=queues, **asked)))
