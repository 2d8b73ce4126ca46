"""Jumping over a stretch comes to the same as deciding it fire by fire."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler import CronTrigger, IntervalTrigger, SchedulerManager
from scheduler.ports import LedgerEntry
from scheduler.testing import Decisions, simulate
from shared import Job

START = 1_700_000_000
LENGTH = 6 * 3600


class Stretched(Job):
    name = "property-stretched"

    def handle(self) -> None: ...


triggers = st.one_of(
    st.integers(20, 4000).map(IntervalTrigger),
    st.sampled_from(["*/7 * * * *", "0 * * * *", "* * * * *"]).map(CronTrigger),
)
spans = (
    st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)).map(sorted).map(lambda s: (START + s[0], START + s[1]))
)
options = st.fixed_dictionaries(
    {"jitter": st.integers(0, 300), "misfire": st.sampled_from(["latest", "all", "skip"])},
    optional={"limit": st.integers(1, 50)},
)


def fire_by_fire(decisions: Decisions) -> list[tuple[str, str, str, int, int]]:
    """Ranges of like decisions, merged; in the order of their nominal times."""
    rows: list[tuple[str, str, str, int, int]] = []
    entries: list[LedgerEntry] = sorted(decisions, key=lambda entry: entry.nominal)
    for entry in entries:
        like = (entry.outcome, entry.reason, entry.kind)
        if rows and rows[-1][:3] == like:
            rows[-1] = (*like, rows[-1][3], rows[-1][4] + entry.count)
        else:
            rows.append((*like, entry.nominal, entry.count))
    return rows


@given(trigger=triggers, chosen=options, outage=spans, pause=spans)
def test_ranges_come_to_the_same_as_single_fires(
    trigger: Any, chosen: dict[str, Any], outage: tuple[int, int], pause: tuple[int, int]
) -> None:
    manager = SchedulerManager()
    manager.schedule(Stretched, trigger, id="s", **chosen)
    inputs = {"outages": [outage], "pauses": {"s": [pause]}}
    ranges = simulate(manager, START, START + LENGTH, **inputs)
    singles = simulate(manager, START, START + LENGTH, **inputs, as_ranges=False)
    assert fire_by_fire(ranges) == fire_by_fire(singles)
    assert ranges.count == singles.count
