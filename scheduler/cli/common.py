"""What commands share: the options that say which Redis, and how results are printed."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from scheduler.cli.cells import clean, pad, width
from shared.settings import Settings, load

Command = TypeVar("Command", bound=Callable[..., Any])

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def redis_options(command: Command) -> Command:
    """Adds --url and --namespace, which the command passes to `settings`."""
    command = click.option("--namespace", metavar="NAME", help="Prefix of all keys.")(command)
    return click.option("--url", metavar="URL", help="Redis: redis://, rediss://, unix://, redis+sentinel://.")(command)


def settings(url: str | None = None, namespace: str | None = None, app: str | None = None) -> Settings:
    """The settings in force with these flags."""
    return load({"url": url, "namespace": namespace, "app": app})


def log_to_stderr(level: int = logging.INFO) -> None:
    """Send log lines to stderr, our own from `level` up; stdout is for results."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format=LOG_FORMAT, force=True)
    logging.getLogger("rqbeat").setLevel(level)


def print_json(document: object) -> None:
    click.echo(json.dumps(document, ensure_ascii=False, indent=2))


def print_table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Columns as wide as their widest cell; numbers to the right."""
    for line in table(headings, rows):
        click.echo(line)


def table(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    texts = [["-" if cell is None else clean(str(cell)) for cell in row] for row in rows]
    widths = [max(map(width, column)) for column in zip(headings, *texts, strict=True)]
    numeric = [bool(rows) and all(isinstance(row[i], int | float) for row in rows) for i in range(len(headings))]
    return [_line(cells, widths, numeric) for cells in (headings, *texts)]


def counted(count: int, noun: str) -> str:
    """`1 schedule`, `2 schedules`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def span(seconds: float) -> str:
    """A duration in its two largest units: `2h 5min`, `4s`."""
    left = int(abs(seconds))
    parts = []
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2]) or "0s"


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    padded = (pad(cell, room, right=right) for cell, room, right in zip(cells, widths, numeric, strict=True))
    return "  ".join(padded).rstrip()
