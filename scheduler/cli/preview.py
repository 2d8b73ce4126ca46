"""`rqbeat next` and `rqbeat explain`: when it fires, and what an expression means. An expression needs no Redis."""

from __future__ import annotations

import click

from scheduler.cli.common import as_json, print_json, print_table, redis_options, settings
from scheduler.explain import Explanation, next_fires
from scheduler.explain import explain as explained
from scheduler.triggers import CronTrigger, Trigger
from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.instants import iso, parse_instant

tz = click.option("--tz", metavar="ZONE", help="The expression's time zone; UTC if none is given.")
bound_id = click.option("--id", "bound_id", metavar="ID", help="The id that H is hashed from.")
with_seconds = click.option("--seconds", is_flag=True, help="The expression has six fields, seconds first.")
start = click.option("--from", "start", metavar="T", help="Fires after T: ISO 8601 with a zone. Now if not given.")


@click.command("next")
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("-e", "--expression", metavar="CRON", help="A cron expression instead of a stored schedule.")
@tz
@bound_id
@with_seconds
@start
@click.option("-n", "count", type=click.IntRange(1, 100_000), default=10, show_default=True, help="How many.")
@as_json
@redis_options
def preview(  # noqa: PLR0913 - one for each option
    schedule_id: str | None,
    expression: str | None,
    tz: str | None,
    bound_id: str | None,
    start: str | None,
    count: int,
    url: str | None,
    namespace: str | None,
    *,
    seconds: bool,
    as_json: bool,
) -> None:
    """The next fires of a stored schedule, or of an expression; `gap` and `repeat` mark clock changes."""
    if (schedule_id is None) == (expression is None):
        raise ConfigurationError("give either the ID of a schedule or an expression with -e")
    if expression is not None:
        trigger: Trigger = CronTrigger(expression, tz, seconds=seconds)
        trigger = trigger.bound_to(bound_id) if bound_id else trigger
    else:
        trigger = _stored_trigger(schedule_id or "", url, namespace)
    fires = next_fires(trigger, _after(start), count)
    if as_json:
        print_json({"fires": [fire.to_dict() for fire in fires]})
    else:
        print_table(("AT", "LOCAL", "NOTE"), [[iso(fire.at), fire.local.isoformat(), fire.note] for fire in fires])


@click.command()
@click.argument("expression", metavar="CRON")
@tz
@bound_id
@with_seconds
@start
@as_json
def explain(
    expression: str, tz: str | None, bound_id: str | None, start: str | None, *, seconds: bool, as_json: bool
) -> None:
    """What a cron expression means: in words, field by field, its next fires, and what may surprise."""
    found = explained(expression, tz, now=_after(start), id=bound_id, seconds=seconds)
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)


def _print(found: Explanation) -> None:
    click.echo(f"{found.words}\n")
    print_table(("FIELD", "TEXT", "MEANS"), [[row.name, row.text, row.words] for row in found.fields])
    click.echo()
    print_table(("NEXT", "LOCAL", "NOTE"), [[iso(fire.at), fire.local.isoformat(), fire.note] for fire in found.next])
    for warning in found.warnings:
        click.echo(f"\nwarning: {warning}")


def _after(start: str | None) -> float:
    return (parse_instant(start, "--from") if start else SystemClock().now_ms()) / 1000


def _stored_trigger(schedule_id: str, url: str | None, namespace: str | None) -> Trigger:
    from scheduler.wiring import open_reader  # noqa: PLC0415 - an expression needs no redis

    view = open_reader(settings(url, namespace)).schedule(schedule_id)
    if view.schedule is None:
        raise ConfigurationError(f"schedule {schedule_id!r}: {view.error}")
    return view.schedule.trigger
