"""`rqbeat version`."""

from __future__ import annotations

from importlib.metadata import version as installed_version

import click

from scheduler.cli.common import as_json, print_json

PARTS = ("rqbeat", "rq", "redis", "msgpack", "click")


@click.command()
@as_json
def version(*, as_json: bool) -> None:
    """The version of rqbeat and of what it stands on."""
    versions = {name: installed_version(name) for name in PARTS}
    if as_json:
        print_json(versions)
    else:
        others = ", ".join(f"{name} {number}" for name, number in versions.items() if name != "rqbeat")
        click.echo(f"rqbeat {versions['rqbeat']} ({others})")
