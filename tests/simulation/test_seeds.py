"""A hundred seeds of beats, people, workers and faults, in seconds: every nominal time is decided once, and rightly.

`RQTEST_SEED=7` runs that seed alone. `python -m tests.simulation 7` prints all its steps.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.adversary import FATES
from tests.simulation.run import Outcome, run

SEED = os.environ.get("RQTEST_SEED")
SEEDS = [int(SEED)] if SEED else range(100)
FIRES = 200


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    return [run(seed, FIRES) for seed in SEEDS]


def test_whatever_happens_every_nominal_time_is_decided_once(outcomes: list[Outcome]) -> None:
    wrong = [outcome for outcome in outcomes if outcome.violations]
    for outcome in wrong:
        print(f"seed {outcome.seed}: {outcome.violations}; python -m tests.simulation {outcome.seed} --fires {FIRES}")
    if SEED and wrong:
        print("\n".join(wrong[0].history))
    assert [outcome.seed for outcome in wrong] == []
    assert min(outcome.fires for outcome in outcomes) >= FIRES


@pytest.mark.skipif(SEED is not None, reason="one seed does not see everything")
def test_the_seeds_see_everything(outcomes: list[Outcome]) -> None:
    """Every fault, every answer of the commit but `error` and `moved`, every kind of change."""
    seen: Counter[str] = Counter()
    for outcome in outcomes:
        seen.update(outcome.seen)
    answers = {"ok", "already", "held", "stale", "gone", "paused", "early", "fenced"}
    changes = {"add", "redefine", "retrigger", "pause", "resume", "cancel", "remove", "fire"}
    machines = {"killed", "crashed", "crash at", "frozen at", "clock", "clock step", "late arrival", "leads"}
    assert (answers | changes | machines | FATES.keys()) - seen.keys() == set()


def test_a_seed_is_a_test_case() -> None:
    """The same steps at the same instants, each time."""
    once, again = run(3, FIRES), run(3, FIRES)
    assert once == again
    assert len(once.history) > FIRES
