"""`rqbeat list`, `show`, `history`: what is stored and what was decided."""

from __future__ import annotations

from dataclasses import asdict

import click

from scheduler.cli.common import as_json, print_json, print_table, redis_options, settings, span
from scheduler.ports import LedgerEntry
from scheduler.readers import ScheduleView
from scheduler.wiring import open_reader
from shared.clock import SystemClock
from shared.instants import iso

OUTCOMES = ("enqueued", "coalesced", "skipped", "missed", "deduplicated")


@click.command("list")
@as_json
@redis_options
def listing(url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """All schedules, by next fire."""
    views = open_reader(settings(url, namespace)).schedules()
    if as_json:
        print_json({"schedules": [view.to_json() for view in views]})
    else:
        print_table(HEADINGS, schedule_rows(views, SystemClock().now_ms()))


@click.command()
@click.argument("schedule_id", metavar="ID")
@as_json
@redis_options
def show(schedule_id: str, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """One schedule: its policies, its next fires, its latest decisions."""
    reader = open_reader(settings(url, namespace))
    view, latest = reader.schedule(schedule_id), reader.history(schedule_id, most=10)
    document = {**view.to_json(), **_details(view), "history": [entry.to_json() for entry in latest]}
    if as_json:
        print_json(document)
        return
    width = max(map(len, document))
    for name, value in document.items():
        if name not in {"history", "next_fires", "policies"}:
            click.echo(f"{name:>{width}}  {'-' if value in (None, []) else value}")
    click.echo(f"{'policies':>{width}}  {_policies(view)}")
    click.echo(f"{'next_fires':>{width}}  {', '.join(_next_fires(view)) or '-'}\n")
    print_table(LEDGER_HEADINGS, ledger_rows(latest))


@click.command()
@click.argument("schedule_id", metavar="[ID]", required=False)
@click.option("--outcome", type=click.Choice(OUTCOMES), help="Only decisions of this outcome.")
@click.option("-n", "most", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many.")
@as_json
@redis_options
def history(
    schedule_id: str | None, outcome: str | None, most: int, url: str | None, namespace: str | None, *, as_json: bool
) -> None:
    """The latest decisions, newest first: of one schedule, or over all."""
    reader = open_reader(settings(url, namespace))
    entries = reader.history(schedule_id, outcome, most)
    if schedule_id and not entries:
        reader.schedule(schedule_id)
    if as_json:
        print_json({"entries": [entry.to_json() for entry in entries]})
    else:
        print_table(LEDGER_HEADINGS, ledger_rows(entries))


HEADINGS = ("ID", "NEXT", "LEFT", "LAST", "PASSED", "TRIGGER", "QUEUE", "STATUS", "RUNS", "ERRORS")
LEDGER_HEADINGS = ("DECIDED", "SCHEDULE", "NOMINAL", "COUNT", "OUTCOME", "LATE", "KIND", "JOB")


def schedule_rows(views: list[ScheduleView], now: int) -> list[list[object]]:
    """The rows of `list`, at `now` in ms."""
    return [
        [
            view.id,
            iso(view.next) if view.next is not None else None,
            span((view.next - now) / 1000) if view.next is not None else None,
            iso(view.last) if view.last is not None else None,
            span((now - view.last) / 1000) if view.last is not None else None,
            view.schedule.trigger.describe() if view.schedule else None,
            view.schedule.options.queue if view.schedule else None,
            f"error: {view.error}" if view.error else view.status,
            view.runs,
            view.errors,
        ]
        for view in views
    ]


def ledger_rows(entries: list[LedgerEntry]) -> list[list[object]]:
    """The rows of `history`."""
    return [
        [
            iso(entry.decided),
            entry.schedule,
            iso(entry.nominal) if entry.count == 1 else f"{iso(entry.nominal)} … {iso(entry.until)}",
            entry.count,
            f"{entry.outcome}({entry.reason})" if entry.reason else entry.outcome,
            f"{(entry.decided - entry.due) / 1000:.3f}s",
            entry.kind,
            entry.job_id,
        ]
        for entry in entries
    ]


def _details(view: ScheduleView) -> dict[str, object]:
    policies = asdict(view.schedule.policy) if view.schedule else {}
    return {"policies": policies, "next_fires": _next_fires(view)}


def _policies(view: ScheduleView) -> str:
    return (
        ", ".join(f"{name}={value}" for name, value in asdict(view.schedule.policy).items()) if view.schedule else "-"
    )


def _next_fires(view: ScheduleView) -> list[str]:
    """The next five nominal times after the stored one."""
    fires: list[str] = []
    at = view.next
    while view.schedule and at is not None and len(fires) < 5:
        fires.append(iso(at))
        at = view.schedule.trigger.next_ms(at)
    return fires
