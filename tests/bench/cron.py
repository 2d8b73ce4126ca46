"""Cron beside its peers: next fires a second and expressions parsed a second, as ratios, in one run.

    python tests/bench/cron.py [seconds per figure]

Every engine walks the same expressions from the same instant. Each figure is the best of several short rounds, taken in turn, so
that a busy machine hits all alike. Ratios above 1 mean that ours is faster. croniter has no `LW` and knows some marks in other
spellings; what it refuses is left out of its mean.
"""

import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).parents[2]))

from croniter import croniter
from cronsim import CronSim

from scheduler.triggers import CronTrigger
from scheduler.triggers.cron import build_rule, cron_rule

MIX = {
    "every minute": "* * * * *",
    "every 5 minutes": "*/5 * * * *",
    "daily": "0 9 * * *",
    "weekdays": "0 9 * * 1-5",
    "list": "5,20,35,50 8-18 * * *",
    "monthly": "0 0 1 * *",
    "day or weekday": "0 0 13 * 5",
    "yearly": "0 0 1 1 *",
    "29 February": "0 0 29 2 *",
    "last day": "0 0 L * *",
    "last weekday": "0 0 LW * *",
    "second Monday": "0 0 * * 1#2",
    "last Friday": "0 0 * * 5L",
}
START = datetime(2024, 1, 1, tzinfo=UTC)
ROUNDS = 5

Step = Callable[[], object]


def ours(expression: str, zone: str) -> Step:
    trigger, at = CronTrigger(expression, zone), START.timestamp()

    def step() -> None:
        nonlocal at
        found = trigger.next_fire(at)
        # The rarest expressions reach the end of the calendar within a round: begin again.
        at = START.timestamp() if found is None else found

    return step


def by_cronsim(expression: str, zone: str) -> Step:
    steps = iter(CronSim(expression, START.astimezone(ZoneInfo(zone) if zone != "UTC" else UTC)))
    return lambda: next(steps)


def by_croniter(expression: str, zone: str) -> Step | None:
    try:
        steps = croniter(expression.replace("5L", "L5"), START.astimezone(ZoneInfo(zone)), ret_type=datetime)
        steps.get_next()
    except (ValueError, KeyError):
        return None
    return steps.get_next


def rate(step: Step | None, seconds: float) -> float:
    """Calls a second, over about so many seconds."""
    if step is None:
        return math.nan
    calls, started = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - started) < seconds:
        for _ in range(50):
            step()
        calls += 50
    return calls / elapsed


def best_rates(makers: list[Callable[[], Step | None]], seconds: float) -> list[float]:
    """The best rate of each engine, which take turns; each round starts anew, so that all stay in the same years."""
    rounds = [[rate(make(), seconds / ROUNDS) for make in makers] for _ in range(ROUNDS)]
    return [max(rates) for rates in zip(*rounds, strict=True)]


def geometric_mean(ratios: list[float]) -> float:
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return math.exp(sum(map(math.log, known)) / len(known))


def compare(title: str, rows: dict[str, list[float]]) -> None:
    """Prints rates and ratios, the mean and the least."""
    print(f"\n{title:<24}{'ours/s':>12}{'cronsim/s':>12}{'croniter/s':>12}{'x cronsim':>11}{'x croniter':>12}")
    for name, (mine, *peers) in rows.items():
        ratios = [mine / peer for peer in peers]
        print(f"{name:<24}{mine:>12,.0f}{peers[0]:>12,.0f}{peers[1]:>12,.0f}{ratios[0]:>11.1f}{ratios[1]:>12.1f}")
    for label, pick in (("geometric mean", geometric_mean), ("least", lambda ratios: min(r for r in ratios if r == r))):
        means = [pick([rates[0] / rates[peer] for rates in rows.values()]) for peer in (1, 2)]
        print(f"{label:<60}{means[0]:>11.1f}{means[1]:>12.1f}")


def next_fires(zone: str, seconds: float) -> dict[str, list[float]]:
    return {
        name: best_rates(
            [lambda make=make: make(expression, zone) for make in (ours, by_cronsim, by_croniter)], seconds
        )  # type: ignore[misc]
        for name, expression in MIX.items()
    }


def parses(seconds: float) -> dict[str, list[float]]:
    def peers(expression: str) -> list[Callable[[], Step | None]]:
        return [
            lambda: lambda: CronSim(expression, START),
            lambda: (
                (lambda: croniter(expression.replace("5L", "L5"), START)) if expression != MIX["last weekday"] else None
            ),
        ]

    rows = {}
    for name, expression in MIX.items():
        rows[name] = best_rates([lambda text=expression: lambda: build_rule(text), *peers(expression)], seconds)  # type: ignore[misc]
    everyday = MIX["weekdays"]
    rows["(weekdays, kept)"] = best_rates([lambda: lambda: cron_rule(everyday), *peers(everyday)], seconds)
    return rows


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    for zone in ("UTC", "America/New_York"):
        compare(f"next fires, {zone}", next_fires(zone, seconds))
    compare("parsing", parses(seconds))


if __name__ == "__main__":
    main()
