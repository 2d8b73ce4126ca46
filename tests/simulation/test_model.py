"""Every order of steps of two beats and three nominal times: the product holds, each bad design has a way to fail.

The bad ones are given no more faults than they need, so that what is found is the flaw that they are known for.
"""

from __future__ import annotations

import pytest

from tests.simulation import designs
from tests.simulation.model import Design, explore


def test_no_order_of_steps_fires_twice_or_never() -> None:
    """Whatever crashes, freezes, is lost, late or repeated, in 16,000 states and more."""
    finding = explore(designs.PRODUCT)
    print(f"the product: {finding.states:,} states")
    assert (finding.wrong, finding.steps) == ("", ())
    assert finding.states > 16_000


def test_without_the_lease_the_cursor_still_guards() -> None:
    """Correctness does not rest on the lease: it only saves work."""
    finding = explore(designs.CURSOR_ALONE)
    print(f"the cursor alone: {finding.states:,} states")
    assert (finding.wrong, finding.steps) == ("", ())


@pytest.mark.parametrize(
    ("name", "design", "faults", "wrong", "last"),
    [
        ("key-first", designs.KEY_FIRST, {"crash"}, "lost", "cursor(1, 1)"),
        ("enqueue-first", designs.ENQUEUE_FIRST, {"crash"}, "doubled", "push(1, 1)"),
        ("lock-only, take-over", designs.LOCK_ONLY, {"crash"}, "lost", "crashes"),
        ("lock-only, lost reply", designs.LOCK_ONLY, {"lost reply"}, "doubled", "commit(0, 1)"),
        ("cursor not compared", designs.UNCOMPARED, {"late"}, "doubled", "commit(0, 1) arrives late"),
        ("no fence", designs.UNFENCED, set(), "accepted from an older lease", "commit(0, 1)"),
    ],
)
def test_a_known_bad_design_has_a_way_to_fail(
    name: str, design: Design, faults: set[str], wrong: str, last: str
) -> None:
    finding = explore(design, frozenset(faults))
    print(f"{name}: {finding.wrong} after {', '.join(finding.steps)}")
    assert finding.wrong == wrong
    assert finding.steps[-1].endswith(last)
