"""`rqbeat next`: when a schedule or an expression fires, with marks at clock changes."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import click

from scheduler.cli.common import as_json, print_json, print_table, redis_options, settings
from scheduler.triggers import CronTrigger, Trigger
from shared.clock import SystemClock
from shared.errors import ConfigurationError
from shared.instants import EPOCH, instant_ms, iso, parse_instant, utc_datetime


@click.command("next")
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("-e", "--expression", metavar="CRON", help="A cron expression instead of a stored schedule.")
@click.option("--tz", metavar="ZONE", help="The expression's time zone; UTC if none is given.")
@click.option("--id", "bound_id", metavar="ID", help="The id that H is hashed from.")
@click.option("--seconds", is_flag=True, help="The expression has six fields, seconds first.")
@click.option("--from", "start", metavar="T", help="Fires after T: ISO 8601 with a zone. Now if not given.")
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
    """The next fires of a stored schedule, or of an expression (which needs no Redis)."""
    if (schedule_id is None) == (expression is None):
        raise ConfigurationError("give either the ID of a schedule or an expression with -e")
    if expression is not None:
        trigger: Trigger = CronTrigger(expression, tz, seconds=seconds)
        trigger = trigger.bound_to(bound_id) if bound_id else trigger
    else:
        trigger = _stored_trigger(schedule_id or "", url, namespace)
    after = parse_instant(start, "--from") if start else SystemClock().now_ms()
    fires = [_row(trigger, at) for at in trigger.fire_times(after / 1000, count)]
    if as_json:
        print_json({"fires": fires})
    else:
        print_table(("AT", "LOCAL", "NOTE"), [[fire["at"], fire["local"], fire["note"]] for fire in fires])


def _stored_trigger(schedule_id: str, url: str | None, namespace: str | None) -> Trigger:
    from scheduler.wiring import open_reader  # noqa: PLC0415 - an expression needs no redis

    view = open_reader(settings(url, namespace)).schedule(schedule_id)
    if view.schedule is None:
        raise ConfigurationError(f"schedule {schedule_id!r}: {view.error}")
    return view.schedule.trigger


def _row(trigger: Trigger, at: datetime) -> dict[str, object]:
    ms = instant_ms(at)
    local = utc_datetime(ms).astimezone(ZoneInfo(trigger.timezone)) if trigger.timezone else utc_datetime(ms)
    return {"at": iso(ms), "epoch": ms / 1000, "local": local.isoformat(), "note": _note(trigger, local)}


def _note(trigger: Trigger, local: datetime) -> str | None:
    """gap: the wall time that was asked for does not exist that day; repeat: it exists twice."""
    if local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset():
        return "repeat"
    if isinstance(trigger, CronTrigger) and not _matches_wall(trigger, local):
        return "gap"
    return None


def _matches_wall(trigger: CronTrigger, local: datetime) -> bool:
    """Whether the expression holds at this wall time: as it would in a zone without clock changes."""
    wall = (local.replace(tzinfo=UTC) - EPOCH).total_seconds() * 1000
    timeless = CronTrigger(trigger.expression, seconds=trigger.seconds)
    return timeless.next_ms(int(wall) - 1) == int(wall)
