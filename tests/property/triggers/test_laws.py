"""The laws that hold for every trigger, whatever it is made of.

`RQTEST_EXAMPLES=200000` runs that many examples in all, shared among the kinds of trigger, and prints how many were
tried.
"""

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))
from strategies import KINDS, ZONES, near_changes

from scheduler.triggers import from_data, to_data
from shared.errors import TriggerTooSparseError

LONG = int(os.environ.get("RQTEST_EXAMPLES", "0"))
# Cron is what most schedules use and where most can go wrong; combinations take long to draw, since many never meet.
SHARES = dict.fromkeys(KINDS, 3) | {"cron": 8, "compound": 1, "business days": 1}
EXAMPLES = {kind: max(LONG * share // sum(SHARES.values()) + 1, 60) for kind, share in SHARES.items()}


def check_laws(trigger, at, within):
    """The laws at one instant `at`; `within` in [0, 1) picks an instant before the next fire."""
    found = trigger.next_ms(at)
    if found is None:
        assert trigger.next_ms(at + 10**10) is None
        return
    assert found > at
    assert trigger.next_ms(found - 1) == found
    assert trigger.next_ms(at + int((found - at) * within)) == found
    assert trigger.next_fire(found / 1000) is None or trigger.next_fire(found / 1000) > found / 1000
    previous = trigger.prev_ms(found)
    assert previous is None or previous <= at
    assert trigger.prev_ms(found + 1) == found
    assert trigger.count_ms(at, found) == 1
    assert trigger.count_ms(at, found - 1) == 0
    check_steps(trigger, found)


def check_steps(trigger, at):
    """From a fire some steps on, and the same steps back."""
    fires = [at]
    while len(fires) < 5 and (later := trigger.next_ms(fires[-1])) is not None:
        fires.append(later)
    assert fires == sorted(set(fires))
    back = [fires[-1]]
    while len(back) < len(fires):
        back.append(trigger.prev_ms(back[-1]))
    assert back[::-1] == fires
    assert trigger.count_ms(fires[0], fires[-1]) == len(fires) - 1


@pytest.mark.timeout(0 if LONG else 120)
@pytest.mark.parametrize("kind", KINDS)
def test_laws(kind, capsys):
    tried = 0

    @settings(
        max_examples=EXAMPLES[kind],
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(st.data(), st.sampled_from(ZONES), st.floats(0, 1, exclude_max=True))
    def run(data, zone, within):
        nonlocal tried
        trigger = data.draw(KINDS[kind](zone))
        at, other = data.draw(near_changes(zone)), data.draw(near_changes(zone))
        try:
            check_laws(trigger, at, within)
            check_order(trigger, *sorted((at, other)))
        except TriggerTooSparseError:
            assume(False)
        assert from_data(to_data(trigger)) == trigger
        tried += 1

    run()
    with capsys.disabled():
        print(f"\n{kind}: {tried:,} examples hold")


def check_order(trigger, early, late):
    """What comes first is answered first."""
    first, second = trigger.next_ms(early), trigger.next_ms(late)
    assert second is None or first <= second
