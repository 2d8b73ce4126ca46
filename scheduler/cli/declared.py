"""`rqbeat diff` and `apply`: what the app declares against what is stored."""

from __future__ import annotations

import click

from scheduler import wiring
from scheduler.catalog import load_manager
from scheduler.cli.common import as_json, print_json, redis_options, settings
from scheduler.declared import Declared
from scheduler.reconcile import Diff


@click.command()
@click.argument("app", required=False)
@as_json
@redis_options
def diff(app: str | None, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """What applying APP would change. Changes nothing."""
    _print(_compare(app, url, namespace)[0], as_json=as_json)


@click.command()
@click.argument("app", required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would change.")
@click.option("--force", is_flag=True, help="Also when the set is empty or much smaller, or an older version's.")
@as_json
@redis_options
def apply(
    app: str | None, url: str | None, namespace: str | None, *, dry_run: bool, force: bool, as_json: bool
) -> None:
    """Make what is stored what APP declares; schedules made at run time are left alone."""
    found, declared = _compare(app, url, namespace)
    if not dry_run:
        found = declared.apply(found, force=force)
    _print(found, as_json=as_json)


def _compare(app: str | None, url: str | None, namespace: str | None) -> tuple[Diff, Declared]:
    asked = settings(url, namespace, app)
    manager = load_manager(asked.app)
    declared = wiring.open_declared(asked.of_app(manager), manager.schedules)
    return declared.compare(), declared


def _print(found: Diff, *, as_json: bool) -> None:
    document = {
        "add": list(found.add),
        "change": list(found.change),
        "remove": list(found.remove),
        "unchanged": len(found.same),
        "refusal": found.refusal(),
    }
    if as_json:
        print_json(document)
        return
    for mark, ids in (("+", found.add), ("~", found.change), ("-", found.remove)):
        for schedule_id in ids:
            click.echo(f"{mark} {schedule_id}")
    click.echo(f"{len(found.same)} unchanged")
    if refusal := found.refusal():
        click.echo(f"refused without --force: {refusal}", err=True)
