"""A part of the terminal that is drawn over again; elsewhere (a pipe, a file) lines that follow each other."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType

import click

from scheduler.cli.cells import ELLIPSIS, cut

CLEAR, HOME, HIDE, SHOW = "\x1b[J", "\x1b[H", "\x1b[?25l", "\x1b[?25h"
ALTERNATE, NORMAL, CLEAR_LINE = "\x1b[?1049h", "\x1b[?1049l", "\x1b[K"
LEAST_LOG = 5
LEAST_TABLE = 3


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a frame; one that tells of a failure is red."""

    text: str
    is_failure: bool = False


class Screen:
    """Draws whole frames. `is_live` says whether a frame replaces the one before."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()
        self._is_coloured = self.is_live and not os.environ.get("NO_COLOR")

    @property
    def size(self) -> tuple[int, int]:
        """The columns and rows that a frame may fill."""
        width, height = shutil.get_terminal_size()
        return width, height - 1

    def __enter__(self) -> Screen:
        if self.is_live:
            click.echo(ALTERNATE + HIDE, nl=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_live:
            with suppress(OSError):  # the terminal may be what has gone
                click.echo(SHOW + NORMAL, nl=False)

    def draw(self, lines: Sequence[Line | str]) -> None:
        """Show these lines, cut to the terminal's size."""
        frame = [line if isinstance(line, Line) else Line(line) for line in lines]
        if not self.is_live:
            click.echo("\n".join(line.text for line in frame) + "\n")
            return
        width, height = self.size
        shown = [CLEAR_LINE + self._shown(line, width) for line in frame[:height]]
        click.echo(HOME + "\n".join(shown) + "\n" + CLEAR, nl=False)

    def _shown(self, line: Line, width: int) -> str:
        text = cut(line.text, width)
        return click.style(text, fg="red") if line.is_failure and self._is_coloured else text


def fitted(title: Line, tables: Sequence[Sequence[Line]], log: Sequence[Line], rows: int) -> list[Line]:
    """A frame of so many rows: the title, the tables, and in what is left the newest lines of the log.

    Tables that leave no five lines for the log are cut, the longest first, each down to its heading, one row and a line
    that says how much is missing.
    """
    room = rows - LEAST_LOG - 1
    top = [title]
    for table in _shortened(tables, room - 1):
        top += [*table, Line("")]
    if len(top) - 1 > room:
        top = [*top[: max(room - 1, 0)], Line(ELLIPSIS), Line("")]
    return [*top, *log[-max(rows - len(top), 1) :]]


def _shortened(tables: Sequence[Sequence[Line]], room: int) -> list[list[Line]]:
    sizes = [len(table) for table in tables]
    while sum(sizes) + len(sizes) - 1 > room and max(sizes, default=0) > LEAST_TABLE:
        sizes[sizes.index(max(sizes))] -= 1
    return [_first(table, size) for table, size in zip(tables, sizes, strict=True)]


def _first(table: Sequence[Line], size: int) -> list[Line]:
    if size == len(table):
        return list(table)
    return [*table[: size - 1], Line(f"{ELLIPSIS} {len(table) - size + 1} more")]
