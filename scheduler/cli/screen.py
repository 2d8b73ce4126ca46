"""A part of the terminal that is drawn over again; elsewhere (a pipe, a file) lines that follow each other."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from types import TracebackType

import click

CLEAR, HOME, HIDE, SHOW = "\x1b[J", "\x1b[H", "\x1b[?25l", "\x1b[?25h"
ALTERNATE, NORMAL, END_OF_LINE = "\x1b[?1049h", "\x1b[?1049l", "\x1b[K"


class Screen:
    """Draws whole frames. `is_live` says whether a frame replaces the one before."""

    def __init__(self) -> None:
        self.is_live = sys.stdout.isatty()

    def __enter__(self) -> Screen:
        if self.is_live:
            click.echo(ALTERNATE + HIDE, nl=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_live:
            click.echo(SHOW + NORMAL, nl=False)

    def draw(self, lines: Sequence[str]) -> None:
        """Show these lines, cut to the terminal's size."""
        if not self.is_live:
            click.echo("\n".join(lines) + "\n")
            return
        width, height = shutil.get_terminal_size()
        shown = [line[:width] + END_OF_LINE for line in lines[: height - 1]]
        click.echo(HOME + "\n".join(shown) + "\n" + CLEAR, nl=False)
