"""`rqbeat fire`, `pause`, `resume`, `remove`: steering schedules, also while no beat runs."""

from __future__ import annotations

from collections.abc import Callable

import click

from scheduler.admin import Admin
from scheduler.cli.common import as_json, print_json, redis_options, settings
from scheduler.wiring import open_admin, open_handfire
from shared.instants import iso

ids = click.argument("ids", nargs=-1, required=True, metavar="ID…")
note = click.option("--note", default="", help="Why: kept in the control log and shown in listings.")


@click.command()
@click.argument("schedule_id", metavar="ID")
@note
@as_json
@redis_options
def fire(schedule_id: str, note: str, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """Enqueue one job of a schedule now. Its own fires are not touched."""
    fired = open_handfire(settings(url, namespace)).now(schedule_id, note)
    if as_json:
        print_json({"job_id": fired.job_id, "nominal": iso(fired.nominal)})
    else:
        click.echo(f"{schedule_id}: job {fired.job_id}")


@click.command()
@ids
@note
@as_json
@redis_options
def pause(ids: tuple[str, ...], note: str, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """Stop the fires of schedules until they are resumed; a restart does not resume them."""
    _change(ids, url, namespace, as_json, "paused", lambda admin, schedule_id: admin.pause(schedule_id, note))


@click.command()
@ids
@note
@as_json
@redis_options
def resume(ids: tuple[str, ...], note: str, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """Let paused schedules fire again, from their next nominal time on unless they catch up."""
    _change(ids, url, namespace, as_json, "resumed", lambda admin, schedule_id: admin.resume(schedule_id, note))


@click.command()
@ids
@note
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@redis_options
def remove(
    ids: tuple[str, ...], note: str, url: str | None, namespace: str | None, *, yes: bool, as_json: bool
) -> None:
    """Forget schedules. Their jobs are not touched; one that the app still declares comes back at the next start."""
    if not yes:
        click.confirm(f"Remove {', '.join(ids)}?", abort=True, err=True)
    _change(ids, url, namespace, as_json, "removed", lambda admin, schedule_id: admin.remove(schedule_id, note))


def _change(
    ids: tuple[str, ...],
    url: str | None,
    namespace: str | None,
    as_json: bool,
    done: str,
    change: Callable[[Admin, str], bool],
) -> None:
    admin = open_admin(settings(url, namespace))
    changed = [schedule_id for schedule_id in ids if change(admin, schedule_id)]
    if as_json:
        print_json({"changed": changed})
        return
    for schedule_id in ids:
        click.echo(f"{schedule_id}: {done}" if schedule_id in changed else f"{schedule_id}: nothing to change")
