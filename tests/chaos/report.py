"""The table of the long form: what was done to the beats, and what came of it."""

from __future__ import annotations

from scheduler.cli.common import table
from tests.chaos.checker import Verdict

HEADINGS = ("fault", "rounds", "fires", "against", "lost", "doubled", "longest gap, s")
_rows: list[tuple[str, int, int, int, int, int, float]] = []


def note(fault: str, count: int, verdict: Verdict) -> None:
    """One row."""
    lost, doubled = len(verdict.lost), len(verdict.doubled)
    _rows.append((fault, count, verdict.fires, verdict.against, lost, doubled, round(verdict.gap, 2)))


def lines() -> list[str]:
    return table(HEADINGS, sorted(_rows)) if _rows else []
