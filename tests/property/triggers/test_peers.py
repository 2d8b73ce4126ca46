"""Cron beside cronsim, on what both understand alike: in UTC, where no clock changes.

One kind of item is left out, because cronsim reads `5-5/2` as `5/2`; crontab(5) reads a range. `RQBEAT_ORACLE=20000`
compares that many random expressions and prints the count.
"""

import os
import random
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.triggers import CronTrigger
from shared.errors import NeverFiresError

cronsim = pytest.importorskip("cronsim")

CASES = int(os.environ.get("RQBEAT_ORACLE", "500"))


def item(draw, low, high):
    a, b = sorted(draw.sample(range(low, high + 1), 2))
    forms = [f"{a}", f"{a}-{b}", f"*/{draw.randint(1, high)}", f"{a}-{b}/{draw.randint(1, 9)}", f"{a},{b}", f"{a}/{b}"]
    return draw.choice(forms)


def expression(draw):
    ranges = [
        (0, 59, []),
        (0, 23, []),
        (1, 31, ["L", "LW"]),
        (1, 12, ["JAN"]),
        (0, 6, ["MON", "5L", "1#2", "0#5", "4-7"]),
    ]
    words = []
    for low, high, marks in ranges:
        kind = draw.random()
        words.append("*" if kind < 0.35 else draw.choice(marks) if marks and kind < 0.5 else item(draw, low, high))
    # cronsim counts 7 as a day of its own in a step.
    if "/" in words[4] and "-" not in words[4]:
        words[4] = "*"
    return " ".join(words)


@pytest.mark.timeout(0 if CASES > 1000 else 120)
def test_agrees_with_cronsim(capsys):
    draw = random.Random(os.environ.get("RQBEAT_SEED", "rqbeat"))  # noqa: S311 - test data
    agreed = 0
    while agreed < CASES:
        text = expression(draw)
        start = datetime(draw.randint(1980, 2060), 1, 1, tzinfo=UTC) + timedelta(seconds=draw.randint(0, 366 * 86_400))
        try:
            ours = CronTrigger(text).fire_times(start, 4)
        except NeverFiresError:
            continue
        theirs = [time for time, _ in zip(cronsim.CronSim(text, start), range(4), strict=False)]
        assert ours == theirs, (text, start)
        agreed += 1
    with capsys.disabled():
        print(f"\n{agreed:,} expressions agree with cronsim")
