"""Many single dates: what is left of them once they have fired, in the beat and in Redis.

    python tests/bench/flat.py [COUNT] [--rate 1000] [--window 5]        100,000 unless given

COUNT schedules of one date each, made at run time, RATE of them due a second, with a catch-up window of WINDOW seconds,
after which a completed one may be forgotten. The memory of the beat and the keys are counted before the first, after
the last, and once nothing of a schedule is left or patience ends. No worker runs: this program stands for it and takes
the jobs away once they are counted. What is left must be bounded or have a time to live.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bench_jobs import Nothing
from ground import beat, memory_mb, own_server, percentile, surroundings, table, wait_until

from scheduler.admin import Admin
from scheduler.readers import Reader
from scheduler.schedule import Schedule, build
from scheduler.triggers import DateTrigger
from shared.clock import SystemClock
from shared.keys import Keys
from shared.settings import Settings

CHUNK = 10_000
STORED_A_SECOND = 3000
PATIENCE_SECONDS = 120
HEAD = (
    "",
    "RSS MB",
    "schedules",
    "keys",
    "of schedules",
    "of jobs",
    "dedupe, with TTL",
    "others",
    "no TTL",
    "server MB",
)


def one_shots(first: float, rate: int, window: float, numbers: range) -> Iterator[Schedule]:
    for number in numbers:
        at = round(first + number / rate, 3)
        yield build(
            Nothing,
            DateTrigger(at),
            {"id": f"once-{number}", "args": [number], "catchup_window": window, "misfire_grace": window},
            owner="runtime",
        )


def store(client: Any, settings: Settings, count: int, rate: int, window: float) -> float:
    """Store them; the instant of the first."""
    first = float(int(time.time()) + 10 + count // STORED_A_SECOND)
    admin = Admin(client, settings.keys, SystemClock(), "bench")
    for start in range(0, count, CHUNK):
        numbers = range(start, min(start + CHUNK, count))
        admin.upsert(list(one_shots(first, rate, window, numbers)))
    return first


def kinds(keys: Keys) -> dict[str, tuple[str, ...]]:
    """Prefixes of keys, by what they belong to."""
    own = (keys.schedule_prefix, keys.stats_prefix, keys.outstanding_prefix, keys.waiting_prefix, keys.ledger_prefix)
    return {"schedule": own, "job": (keys.rq_job_prefix,), "fired": (keys.fired_prefix,)}


def count_keys(client: Any, keys: Keys) -> Counter[str]:
    """How many keys there are of each kind, and how many of all have no time to live."""
    found: Counter[str] = Counter()
    cursor = -1
    while cursor:
        cursor, names = client.scan(max(cursor, 0), count=1000)
        pipe = client.pipeline(transaction=False)
        for name in names:
            pipe.pttl(name)
        for name, left in zip(names, pipe.execute(), strict=True):
            found[kind_of(name.decode(), keys)] += 1
            found["no TTL"] += left == -1
    return found


def kind_of(name: str, keys: Keys) -> str:
    return next((kind for kind, prefixes in kinds(keys).items() if name.startswith(prefixes)), "other")


def row(label: str, pid: int, client: Any, keys: Keys) -> list[object]:
    found = count_keys(client, keys)
    total = sum(number for kind, number in found.items() if kind != "no TTL")
    numbers = [
        client.scard(keys.schedules),
        total,
        *(found[k] for k in ("schedule", "job", "fired", "other", "no TTL")),
    ]
    used = client.info("memory")["used_memory"] / 2**20
    return [label, f"{memory_mb(pid):.0f}", *(f"{number:,}" for number in numbers), f"{used:.0f}"]


def take_jobs_away(client: Any, keys: Keys) -> None:
    """As workers would whose results are not kept."""
    while names := client.lpop(keys.rq_queue_prefix + "default", 1000):
        client.delete(*(keys.rq_job_prefix + name.decode() for name in names))
    client.delete(keys.live_prefix + "default")


def wait_for_pruning(client: Any, keys: Keys) -> str:
    """Wait until all are forgotten, or for so long that a rate can be told."""
    before, started = client.scard(keys.schedules), time.perf_counter()
    try:
        seconds = wait_until(lambda: not client.scard(keys.schedules), PATIENCE_SECONDS, "all forgotten", pause=0.5)
    except TimeoutError:
        left = client.scard(keys.schedules)
        rate = (before - left) / (time.perf_counter() - started)
        return (
            f"NOT flat: {left:,} completed schedules are left after {PATIENCE_SECONDS} s, {rate:.1f} forgotten a second"
        )
    return f"all schedules are forgotten {seconds:.0f} s after the last fire"


def fired_lateness(client: Any, settings: Settings, count: int) -> str:
    entries = Reader(client, settings.keys).history(most=2 * count)
    late = [entry.decided - entry.due for entry in entries if entry.outcome == "enqueued"]
    rest = Counter(f"{entry.outcome} ({entry.reason})" for entry in entries if entry.outcome != "enqueued")
    told = ", ".join(f"{number:,} {outcome}" for outcome, number in rest.items())
    figures = f"p50 {percentile(late, 0.5)} ms, p99 {percentile(late, 0.99)} ms, at most {max(late)} ms late"
    return f"{len(late):,} of {count:,} enqueued, {figures}" + (f"; {told}" if told else "")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="what single dates leave behind")
    parser.add_argument("count", type=int, nargs="?", default=100_000)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--window", type=float, default=5)
    return parser.parse_args()


def main() -> None:
    chosen = options()
    with own_server() as (server, client, settings), beat(server) as pid:
        keys = settings.keys
        print(surroundings(client), flush=True)
        wait_until(lambda: client.exists(keys.leader), 20, "a leader")
        rows = [row("a beat alone", pid, client, keys)]
        first = store(client, settings, chosen.count, chosen.rate, chosen.window)
        rows.append(row("stored", pid, client, keys))
        seconds = first - time.time() + chosen.count / chosen.rate + chosen.window + 5
        wait_until(lambda: not client.zcard(keys.timetable), seconds + 60, "all fired", pause=0.5)
        notes = [fired_lateness(client, settings, chosen.count)]
        rows.append(row("fired", pid, client, keys))
        take_jobs_away(client, keys)
        notes.append(wait_for_pruning(client, keys))
        rows.append(row("forgotten", pid, client, keys))
        print(f"\n{table(HEAD, rows)}\n")
        for note in notes:
            print(f"- {note}")


if __name__ == "__main__":
    main()
