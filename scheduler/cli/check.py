"""`rqbeat check`: everything that is wrong with an app, at once, without Redis."""

from __future__ import annotations

import click

from scheduler import catalog
from scheduler.cli.cells import bounded
from scheduler.cli.common import as_json, counted, print_json, settings
from shared.clock import SystemClock


@click.command()
@click.argument("app", required=False)
@as_json
@click.pass_context
def check(ctx: click.Context, app: str | None, *, as_json: bool) -> None:
    """Load APP and validate every schedule and job. Exit 1 if anything is wrong. Needs no Redis."""
    found = catalog.check(settings(app=app).app, SystemClock().now_ms() / 1000)
    if as_json:
        print_json(_document(found))
    else:
        _print(found)
    ctx.exit(1 if found.problems else 0)


def _document(found: catalog.Checked) -> dict[str, object]:
    errors, warnings = (
        [{"where": problem.where, "message": problem.message} for problem in problems]
        for problems in (found.problems, found.warnings)
    )
    counts = {"schedules": found.schedules, "jobs": found.jobs}
    return {"ok": not errors, **counts, "errors": errors, "warnings": warnings}


def _print(found: catalog.Checked) -> None:
    for problem in found.problems:
        click.echo(bounded(f"{problem.where}: {problem.message}"), err=True)
    for problem in found.warnings:
        click.echo(f"warning: {problem.where}: {problem.message}", err=True)
    verdict = counted(len(found.problems), "error") if found.problems else "ok"
    click.echo(f"{verdict}: {counted(found.schedules, 'schedule')}, {counted(found.jobs, 'job')}")
