"""`rqbeat fire`, `backfill`, `pause`, `resume`, `remove`: steering schedules, also while no beat runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

import click

from scheduler.admin import Admin
from scheduler.cli.common import as_json, print_json, redis_options, settings
from scheduler.handfire import HandFire, Range
from scheduler.wiring import open_admin, open_handfire, open_reader
from shared.clock import SystemClock
from shared.errors import ConfigurationError, NotFoundError
from shared.instants import iso, parse_instant
from shared.settings import Settings

ids = click.argument("ids", nargs=-1, metavar="[ID]...")
by_tag = click.option("--tag", help="All schedules with this tag.")
every = click.option("--all", "every", is_flag=True, help="All schedules.")
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
@click.argument("schedule_id", metavar="ID")
@click.option("--from", "start", metavar="T", required=True, help="First nominal time: ISO 8601 with a zone.")
@click.option("--to", "end", metavar="T", required=True, help="Nominal times before this one.")
@click.option("--max", "most", type=click.IntRange(1, 1_000_000), default=1000, show_default=True, help="How many.")
@click.option("--again", is_flag=True, help="Also those that were enqueued already.")
@click.option("--overlap", type=click.Choice(["allow", "skip"]), default="allow", show_default=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be enqueued.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@note
@as_json
@redis_options
def backfill(  # noqa: PLR0913 - one for each option
    schedule_id: str,
    start: str,
    end: str,
    most: int,
    overlap: str,
    note: str,
    url: str | None,
    namespace: str | None,
    *,
    again: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Enqueue a job for each nominal time of a range that was not enqueued yet. The schedule's cursor does not move."""
    span = Range(
        start=parse_instant(start, "--from"),
        end=parse_instant(end, "--to"),
        most=most,
        again=again,
        overlap="skip" if overlap == "skip" else "allow",
    )
    hand = open_handfire(settings(url, namespace))
    planned = len(hand.plan(schedule_id, span))
    if planned == most:
        click.echo(f"at most {most} at once: there may be more, later in the range (--max)", err=True)
    if not dry_run and not yes and sys.stdin.isatty():
        click.confirm(f"Enqueue {planned} jobs of {schedule_id}?", abort=True, err=True)
    _print_backfill(_backfill(hand, schedule_id, span, note, planned, dry_run=dry_run), as_json=as_json)


def _backfill(
    hand: HandFire, schedule_id: str, span: Range, note: str, planned: int, *, dry_run: bool
) -> dict[str, object]:
    if dry_run or not planned:
        return {"planned": planned, "enqueued": 0, "skipped": 0, "jobs": []}
    with click.progressbar(length=planned, label=schedule_id, file=sys.stderr) as bar:
        done = hand.backfill(schedule_id, span, note, progress=lambda count, _of: bar.update(count - bar.pos))
    return {**asdict(done), "jobs": list(done.jobs)}


def _print_backfill(document: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        print_json(document)
    else:
        click.echo(f"planned {document['planned']}, enqueued {document['enqueued']}, skipped {document['skipped']}")


@click.command()
@ids
@by_tag
@every
@click.option("--until", metavar="T", help="Resume by itself then: ISO 8601 with a zone.")
@note
@as_json
@redis_options
def pause(
    ids: tuple[str, ...],
    tag: str | None,
    until: str | None,
    note: str,
    url: str | None,
    namespace: str | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Stop the fires of schedules until they are resumed; a restart does not resume them."""
    ends, found = (parse_instant(until, "--until") if until else None), settings(url, namespace)
    if ends is not None and ends <= SystemClock().now_ms():
        raise ConfigurationError(f"--until {until} is over already")
    chosen = _choose(found, ids, tag, every=every)
    _change(found, chosen, "paused", lambda admin, name: admin.pause(name, note, ends), as_json=as_json)


@click.command()
@ids
@by_tag
@every
@note
@as_json
@redis_options
def resume(
    ids: tuple[str, ...],
    tag: str | None,
    note: str,
    url: str | None,
    namespace: str | None,
    *,
    every: bool,
    as_json: bool,
) -> None:
    """Let paused schedules fire again, from their next nominal time on unless they catch up."""
    found = settings(url, namespace)
    chosen = _choose(found, ids, tag, every=every)
    _change(found, chosen, "resumed", lambda admin, name: admin.resume(name, note), as_json=as_json)


@click.command()
@ids
@by_tag
@every
@note
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@redis_options
def remove(
    ids: tuple[str, ...],
    tag: str | None,
    note: str,
    url: str | None,
    namespace: str | None,
    *,
    every: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Forget schedules. Their jobs are not touched; one that the app still declares comes back at the next start."""
    found = settings(url, namespace)
    chosen = _choose(found, ids, tag, every=every)
    if not yes:
        click.confirm(f"Remove {', '.join(chosen)}?", abort=True, err=True)
    _change(found, chosen, "removed", lambda admin, name: admin.remove(name, note), as_json=as_json)


def _choose(found: Settings, ids: Sequence[str], tag: str | None, *, every: bool) -> list[str]:
    """The schedules that were named: by id, by tag, or all of them."""
    if bool(ids) + bool(tag) + every != 1:
        raise ConfigurationError("name schedules by their IDs, or by --tag, or --all")
    reader = open_reader(found)
    if ids:
        return [reader.schedule(schedule_id).id for schedule_id in ids]  # all are there, or none is changed
    chosen = [view.id for view in reader.schedules() if every or (view.schedule and tag in view.schedule.tags)]
    if not chosen:
        raise NotFoundError(f"no schedule has the tag {tag!r}" if tag else "there are no schedules")
    return chosen


def _change(
    found: Settings, ids: Sequence[str], done: str, change: Callable[[Admin, str], bool], *, as_json: bool
) -> None:
    admin = open_admin(found)
    changed = [schedule_id for schedule_id in ids if change(admin, schedule_id)]
    if as_json:
        print_json({"changed": changed})
        return
    for schedule_id in ids:
        click.echo(f"{schedule_id}: {done}" if schedule_id in changed else f"{schedule_id}: nothing to change")
