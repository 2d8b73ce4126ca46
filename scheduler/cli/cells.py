"""Text as a terminal shows it: how many cells it takes, where to cut it, and what may not reach a terminal. Pure."""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours, and moves of the cursor
    r"|\x1b[]PX^_].*?(?:\x07|\x1b\\|$)"  # titles and links, up to their end
    r"|\x1b[ -/]*[0-~]?"
)
LONGEST = 4000
_LONG_WORD = re.compile(r"(?P<head>\S{200})\S{100,}")
_UNSHOWN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Controls, marks of direction and joining, lone surrogates, and what ends a line."""
_NO_CELL = frozenset({"Mn", "Me"})


def clean(text: str) -> str:
    """Text without escape codes and control characters: what is left can move no cursor."""
    if text.isascii() and text.isprintable():
        return text
    bare = _ESCAPES.sub("", text).expandtabs()
    return "".join(char for char in bare if unicodedata.category(char) not in _UNSHOWN)


def bounded(text: str) -> str:
    """A message that repeats what it was given, without all of a word or a text that is too long to be read."""
    return _LONG_WORD.sub(rf"\g<head>{ELLIPSIS}", text)[:LONGEST]


def width(text: str) -> int:
    """The cells that a cleaned text takes: two for each wide character, none for an accent of its own."""
    return len(text) if text.isascii() else sum(map(_cells, text))


def cut(text: str, room: int) -> str:
    """A text that takes at most `room` cells; where something is missing, it ends in an ellipsis."""
    if width(text) <= room:
        return text
    kept, taken = [], 1
    for char in text:
        taken += _cells(char)
        if taken > room:
            break
        kept.append(char)
    return "".join([*kept, ELLIPSIS])[: max(room, 0)]


def pad(text: str, room: int, *, right: bool = False) -> str:
    """A text filled up to `room` cells, on its left when it stands to the right."""
    blanks = " " * (room - width(text))
    return blanks + text if right else text + blanks


def _cells(char: str) -> int:
    if unicodedata.category(char) in _NO_CELL:
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1
