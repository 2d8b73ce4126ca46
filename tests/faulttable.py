"""The table of faults: what was done, and what came of it. One row for each test that is marked with a fault's number.

A test hands its figures to the fixture `note`; one that has none is a row with its result alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from scheduler.cli.common import table
from tests.chaos.checker import Verdict

HEADINGS = ("id", "fault", "rounds", "fires", "lost", "doubled", "recovered in, s", "result", "seed")
WIDEST = 60


def figures(rounds: int, verdict: Verdict, lasted: float) -> dict[str, object]:
    """What is shown of a verdict. `lasted` is how long, in seconds, the fault itself kept every beat from deciding."""
    return {
        "rounds": rounds,
        "fires": verdict.fires,
        "lost": len(verdict.lost),
        "doubled": len(verdict.doubled),
        "recovered in, s": f"{max(0.0, verdict.gap - lasted):.2f}",
    }


def lines(reports: Iterable[pytest.TestReport]) -> list[str]:
    """The table of what was reported, by fault."""
    found = [(report, dict(report.user_properties)) for report in reports]
    rows = [_row(report, told) for report, told in found if "id" in told and _is_result(report)]
    return table(HEADINGS, sorted(rows)) if rows else []


def _is_result(report: pytest.TestReport) -> bool:
    """The call, or the end of a test that never came so far."""
    return report.when == "call" or report.outcome != "passed"


def _row(report: pytest.TestReport, told: Mapping[str, Any]) -> tuple[str, ...]:
    name = report.nodeid.partition("::test_")[2]
    shown = {"fault": name[:WIDEST], "result": report.outcome, **told}
    return tuple(str(shown.get(heading, "")) for heading in HEADINGS)
