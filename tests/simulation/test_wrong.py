"""The simulation finds out every design that is known to be wrong. One that can't fail proves nothing."""

from __future__ import annotations

import pytest

from tests.simulation.run import run
from tests.simulation.wrong import WRONG

SEEDS = 200
FIRES = 200
SAID = {
    "key-first": "deduplicated and never pushed",
    "push-first": "doubled",
    "cursor-edge": "doubled",
    "due-edge": "early by 1 ms",
    "no-fence": "fenced lease",
    "no-compare": "was taken after",
    "lease-only": "doubled",
    "no-revision": "an outdated definition",
    "no-status": "decided at rest",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_design_is_found_out(name: str) -> None:
    """By the words that its flaw deserves, not by any that come along."""
    for seed in range(SEEDS):
        found = [line for line in run(seed, FIRES, WRONG[name]).violations if SAID[name] in line]
        if found:
            print(f"{name}: found out at seed {seed}: {found[0]}")
            return
    pytest.fail(f"{name} passed {SEEDS} seeds")
