"""What the processes of `rqbeat dev` write: the latest for the view, all of it in a file, on stdout where no view is.

In the view a log line keeps its time of day, the words that ask for attention, and the message.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from pathlib import Path

import click

from scheduler.cli.cells import clean
from scheduler.cli.screen import Line

LINES_KEPT = 500
LAST_WORDS = 20
MOST_BYTES = 5_000_000
_LOG_LINE = re.compile(
    r"\d{4}-\d\d-\d\d (?P<time>\d\d:\d\d:\d\d),\d{3} (?P<level>[A-Z]+) +\S+: (?P<message>.*)", re.DOTALL
)
_QUIET = frozenset({"DEBUG", "INFO"})
_LOUD = frozenset({"ERROR", "CRITICAL"})


class LineLog:
    """A file that lines are appended to; begun anew when it is over 5 MB, the one before kept as `….1`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()

    def write(self, line: str) -> None:
        """Append one line. A full disk loses lines, and ends nothing."""
        try:
            with self._lock, self.path.open("a", encoding="utf-8") as file:
                file.write(line + "\n")
                if file.tell() > MOST_BYTES:
                    self.path.replace(self.path.with_name(self.path.name + ".1"))
        except OSError:
            return


class Heard:
    """Called with each line of each process, from threads."""

    def __init__(self, log: LineLog | None, *, is_shown_at_once: bool) -> None:
        self._log = log
        self._is_shown_at_once = is_shown_at_once
        self._lines: deque[tuple[str, str]] = deque(maxlen=LINES_KEPT)

    def __call__(self, name: str, text: str) -> None:
        text = clean(text.rstrip())
        self._lines.append((name, text))
        if self._log:
            self._log.write(_prefixed(name, text))
        if self._is_shown_at_once:
            click.echo(_prefixed(name, text))

    def latest(self) -> list[Line]:
        """The latest lines, oldest first, as the view shows them."""
        failing: dict[str, bool] = {}
        shown = []
        for name, text in list(self._lines):
            is_failure, failing[name] = _judged(text, is_inside=failing.get(name, False))
            shown.append(Line(_prefixed(name, shortened(text)), is_failure))
        return shown

    def last_words(self, name: str) -> str:
        """The latest lines of one process."""
        said = [_prefixed(*line) for line in list(self._lines) if line[0] == name]
        return "\n".join(said[-LAST_WORDS:]) or "it said nothing"


def shortened(text: str) -> str:
    """A line of the log without date, milliseconds and logger, and without a level that asks for nothing."""
    found = _LOG_LINE.fullmatch(text)
    if not found:
        return text
    level = "" if found["level"] in _QUIET else found["level"] + " "
    return f"{found['time']} {level}{found['message']}"


def _judged(text: str, *, is_inside: bool) -> tuple[bool, bool]:
    """Whether a line tells of a failure, and whether a traceback goes on after it: up to its first line at the left."""
    if found := _LOG_LINE.fullmatch(text):
        is_failed = found["level"] in _LOUD or (found["level"] not in _QUIET and " failed" in found["message"])
        return is_failed, is_failed and found["message"].endswith("(most recent call last):")
    return is_inside, is_inside and text.startswith(" ")


def _prefixed(name: str, text: str) -> str:
    return f"{name:>6} | {text}"
