"""Cron beside its peers: next fires a second and expressions parsed a second, as ratios, in one run.

    python tests/bench/cron.py [seconds per figure]

Every engine walks the same expressions from the same instant. Each figure is the best of several short rounds, taken in
turn, so that a busy machine hits all alike. A ratio above 1 means that ours is faster. croniter has no `LW`: that is
left out of its mean.
"""

import math
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
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


def for_croniter(expression: str) -> str:
    """croniter writes the last Friday as L5."""
    return expression.replace("5L", "L5")


def by_croniter(expression: str, zone: str) -> Step | None:
    try:
        steps = croniter(for_croniter(expression), START.astimezone(ZoneInfo(zone)), ret_type=datetime)
        steps.get_next()
    except (ValueError, KeyError):
        return None
    return steps.get_next


def rate(step: Step | None, seconds: float) -> float:
    """Calls a second, over about so many seconds; 0 if there is nothing to call."""
    if step is None:
        return 0.0
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
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def compare(title: str, rows: dict[str, list[float]]) -> None:
    """Prints rates and ratios, their geometric mean and the least."""
    print(f"\n{title:<28}{'ours/s':>12}{'cronsim/s':>12}{'croniter/s':>12}{'x cronsim':>11}{'x croniter':>12}")
    for name, (mine, *peers) in rows.items():
        ratios = [mine / peer if peer else math.nan for peer in peers]
        print(f"{name:<28}{mine:>12,.0f}{peers[0]:>12,.0f}{peers[1]:>12,.0f}{ratios[0]:>11.1f}{ratios[1]:>12.1f}")
    for label, summary in (("geometric mean", geometric_mean), ("least", min)):
        ratios = [[rates[0] / rates[peer] for rates in rows.values() if rates[peer] > 0] for peer in (1, 2)]
        print(f"{label:<64}{summary(ratios[0]):>11.1f}{summary(ratios[1]):>12.1f}")


def next_fires(expression: str, zone: str, seconds: float) -> list[float]:
    makers = [ours, by_cronsim, by_croniter]
    return best_rates([partial(make, expression, zone) for make in makers], seconds)


def parses(parse: Callable[[str], object], expression: str, seconds: float) -> list[float]:
    peers: list[Step | None] = [partial(CronSim, expression, START), partial(croniter, for_croniter(expression), START)]
    if by_croniter(expression, "UTC") is None:
        peers[1] = None
    return best_rates([lambda step=step: step for step in (partial(parse, expression), *peers)], seconds)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 0.5
    for zone in ("UTC", "America/New_York"):
        compare(f"next fires, {zone}", {name: next_fires(text, zone, seconds) for name, text in MIX.items()})
    compare("parsing", {name: parses(build_rule, text, seconds) for name, text in MIX.items()})
    compare("parsing, kept", {name: parses(cron_rule, MIX[name], seconds) for name in ("weekdays", "list")})


if __name__ == "__main__":
    main()
