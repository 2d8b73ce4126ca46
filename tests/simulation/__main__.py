"""`python -m tests.simulation SEED` prints the steps of one run; `--seeds 2000` runs many and prints what they saw."""

from __future__ import annotations

import argparse
import time
from collections import Counter

from tests.simulation.run import Design, Outcome, run
from tests.simulation.wrong import WRONG


def main() -> int:
    """Exit 1 when something did not hold."""
    asked = _arguments()
    design = WRONG[asked.wrong] if asked.wrong else Design()
    if asked.seeds == 1:
        return _show(run(asked.seed, asked.fires, design))
    return _many(range(asked.seed, asked.seed + asked.seeds), asked.fires, design)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("seed", nargs="?", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many, one after the other")
    parser.add_argument("--fires", type=int, default=1000, help="jobs to be enqueued in each")
    parser.add_argument("--wrong", choices=WRONG, help="put a design to the test that is known to be wrong")
    return parser.parse_args()


def _show(outcome: Outcome) -> int:
    print("\n".join(outcome.history))
    print(f"\nseed {outcome.seed}: {outcome.fires} fires, {outcome.decided} nominal times decided")
    print("\n".join(outcome.violations) or "everything held")
    return int(bool(outcome.violations))


def _many(seeds: range, fires: int, design: Design) -> int:
    started = time.monotonic()
    seen: Counter[str] = Counter()
    rows, busiest = [], 0
    for outcome in (run(seed, fires, design) for seed in seeds):
        seen.update(outcome.seen)
        busiest = max(busiest, outcome.busiest)
        rows.append((outcome.fires, outcome.decided, outcome.turns, outcome.elapsed_ms, bool(outcome.violations)))
        if outcome.violations:
            print(f"seed {outcome.seed}: {outcome.violations[0]}")
    jobs, decided, turns, elapsed, wrong = (sum(column) for column in zip(*rows, strict=True))
    print(f"{len(rows)} seeds, {wrong} of them wrong; {jobs:,} fires, in each {min(rows)[0]:,} or more")
    print(f"{decided:,} nominal times decided in {turns:,} turns and {elapsed / 3_600_000:,.1f} hours of virtual time,")
    print(f"at most {busiest} turns of a beat in one second")
    print(", ".join(f"{what} {count:,}" for what, count in sorted(seen.items())))
    print(f"{time.monotonic() - started:.1f} s")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
