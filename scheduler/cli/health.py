"""`rqbeat health`: for containers. Exit 0 when well, 5 when not; never a traceback."""

from __future__ import annotations

import re
import socket

import click

from scheduler.cli.common import as_json, print_json, redis_options, settings
from scheduler.wiring import open_client
from shared.clock import SystemClock
from shared.errors import StoreError
from shared.redisio.connection import Client, check_server
from shared.redisio.presence import present
from shared.settings import Settings

SILENT_SECONDS = 15
Checks = dict[str, object]


@click.command()
@click.option("--role", type=click.Choice(["beat", "worker", "redis"]), default="redis", show_default=True)
@as_json
@redis_options
@click.pass_context
def health(ctx: click.Context, role: str, url: str | None, namespace: str | None, *, as_json: bool) -> None:
    """Judge this host's beat or worker by what it said of itself lately, or Redis by asking it."""
    found = settings(url, namespace)
    ok, checks = judge(found, open_client(found, "rqbeat-health"), role)
    if as_json:
        print_json({"ok": ok, "role": role, "checks": checks})
    else:
        click.echo(f"{role}: {'well' if ok else 'unwell'}")
        for name, value in checks.items():
            click.echo(f"  {name}: {value}")
    ctx.exit(0 if ok else 5)


def judge(found: Settings, client: Client, role: str) -> tuple[bool, Checks]:
    """Whether a role is well on this host, and why."""
    try:
        warnings = check_server(client, found.keys)
        return (
            (True, {"redis": "answers", "warnings": warnings}) if role == "redis" else _judge_own(found, client, role)
        )
    except StoreError as error:
        return False, {"redis": str(error)}


def _judge_own(found: Settings, client: Client, role: str) -> tuple[bool, Checks]:
    host, now = socket.gethostname(), SystemClock().now_ms()
    own = [record for record in present(client, found.keys, role) if record.get("host") == host]
    if not own:
        return False, {"process": f"no {role} on {host} has said anything for a while"}
    latest = max(own, key=_spoke_at)
    silent = (now - _spoke_at(latest)) / 1000
    checks: Checks = {**latest, "silent_s": round(max(0.0, silent), 1)}
    return silent < SILENT_SECONDS and not latest.get("error"), checks


def _spoke_at(record: dict[str, str]) -> int:
    """When a process spoke last, in ms; 0 for a record that does not tell."""
    at = record.get("at", "")
    return int(at) if re.fullmatch(r"[0-9]{1,15}", at) else 0
