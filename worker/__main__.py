"""`python -m worker`: the command by itself, for process managers that want no console script."""

from __future__ import annotations

import sys

import click

from shared.errors import RqbeatError
from worker.cli import command


def main() -> None:
    """Run the command; an error is one line, and exit code 2 as with every wrong setting."""
    try:
        command()
    except RqbeatError as error:
        click.echo(f"worker: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
