"""`rqbeat doctor`: for people. What stands in the way of fires and jobs, and what the ledger says of the past."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click

from scheduler.admin import Admin
from scheduler.audit import Finding
from scheduler.cli.cells import clean
from scheduler.cli.common import as_json, counted, print_json, redis_options, settings
from scheduler.clockcheck import SKEW_MS
from scheduler.readers import UNREADABLE, Reader, ScheduleView
from scheduler.selfaudit import findings
from scheduler.wiring import open_admin, open_client
from shared.clock import SystemClock
from shared.instants import iso
from shared.redisio.connection import Client, check_server, server_now
from shared.redisio.presence import present
from shared.redisio.queues import queues
from shared.settings import Settings


@dataclass(frozen=True, slots=True)
class Complaint:
    """Something that is not as it should be. `finding` is what `--fix` can mend."""

    about: str
    message: str
    finding: Finding | None = None


@click.command()
@click.option("--fix", is_flag=True, help="Write what was never decided into the ledger, as missed(error).")
@as_json
@redis_options
@click.pass_context
def doctor(ctx: click.Context, url: str | None, namespace: str | None, *, fix: bool, as_json: bool) -> None:
    """Look at server, clocks, processes, queues and the ledger. Exit 5 when something is wrong."""
    found = settings(url, namespace)
    complaints = list(_examine(found, open_client(found, "rqbeat-doctor")))
    if fix:
        complaints = [item for item in complaints if not _mend(open_admin(found), item)]
    if as_json:
        rows = [{"about": item.about, "message": item.message} for item in complaints]
        print_json({"ok": not complaints, "complaints": rows, "fixed": fix})
    else:
        for item in complaints:
            click.echo(clean(f"{item.about}: {item.message}"))
        click.echo(counted(len(complaints), "complaint") if complaints else "all is well")
    ctx.exit(5 if complaints else 0)


def _examine(found: Settings, client: Client) -> Iterator[Complaint]:
    for warning in check_server(client, found.keys):
        yield Complaint("redis", warning)
    skew = SystemClock().now_ms() - server_now(client)
    if abs(skew) > SKEW_MS:
        yield Complaint("clock", f"this host's clock is {skew / 1000:+.1f} s off Redis' clock: no beat here would lead")
    yield from _processes(found, client)
    reader = Reader(client, found.keys)
    for view in reader.schedules():
        yield from _schedule(reader, view)


def _processes(found: Settings, client: Client) -> Iterator[Complaint]:
    beats = present(client, found.keys, "beat")
    for record in beats:
        if record.get("error"):
            yield Complaint(f"beat on {record.get('host')}", record["error"])
    if not any(record.get("state") == "leader" for record in beats):
        yield Complaint("beat", "no beat leads: nothing is fired. Start `rqbeat run APP`")
    for queue in queues(client, found.keys, SystemClock()):
        if queue.error:
            yield Complaint(f"queue {queue.name}", queue.error)
        if queue.depth and not queue.workers:
            yield Complaint(f"queue {queue.name}", f"{queue.depth} jobs wait and no worker listens")


def _schedule(reader: Reader, view: ScheduleView) -> Iterator[Complaint]:
    if view.error:
        yield Complaint(f"schedule {view.id}", view.error)
    if view.schedule is None:
        return
    for entry in reader.history(view.id, UNREADABLE, most=1):
        yield Complaint(f"ledger of {view.id}", f"an entry can't be read: {entry.reason}")
    for finding in findings(reader, view.id):
        span = iso(finding.nominal) + (f" to {iso(finding.until)}" if finding.count > 1 else "")
        yield Complaint(f"ledger of {view.id}", f"{finding.count} nominal times {finding.kind}: {span}", finding)


def _mend(admin: Admin, item: Complaint) -> bool:
    """Whether it could be mended."""
    if item.finding is None or item.finding.kind != "missing":
        return False
    admin.mend(item.finding)
    click.echo(f"{item.about}: mended: {item.message}", err=True)
    return True
