"""Sending many jobs at once, and one at a time, beside RQ in the same run.

    python tests/bench/dispatch.py [COUNT] [--rounds N] [--least X]     10,000 and 5 rounds unless given

Each way in turn on one server, emptied in between, the best of the rounds. RQ gets its jobs as its documentation shows:
`Queue.enqueue_many` of what `Queue.prepare_data` makes, through one pipeline; the default serializer, no options.
Exits 1 when `dispatch_many` is not at least X times (4) as fast.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import ground
from bench_jobs import Nothing, Number, Typed, nothing
from rq import Queue

from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from shared.signature import UNSIGNED, Keyring

ONE_BY_ONE = 20
"""One at a time is measured with this share of the jobs."""


def many(client: Any, count: int, keyring: Keyring = UNSIGNED) -> None:
    with using_outbox(RedisOutbox(client, Keys(), keyring=keyring)):
        Nothing.dispatch_many(((n,), {}) for n in range(count))


def typed(client: Any, count: int) -> None:
    with using_outbox(RedisOutbox(client, Keys(), keyring=UNSIGNED)):
        Typed.dispatch_many(Typed.arguments(Number(n)) for n in range(count))


def rq_many(client: Any, count: int) -> None:
    queue = Queue("default", connection=client)
    queue.enqueue_many([Queue.prepare_data(nothing, args=(n,)) for n in range(count)])


def one_by_one(client: Any, count: int) -> None:
    with using_outbox(RedisOutbox(client, Keys(), keyring=UNSIGNED)):
        for n in range(count):
            Nothing.dispatch(n)


def rq_one_by_one(client: Any, count: int) -> None:
    queue = Queue("default", connection=client)
    for n in range(count):
        queue.enqueue(nothing, n)


MANY: dict[str, Callable[[Any, int], None]] = {
    "dispatch_many": many,
    "dispatch_many, signed": lambda client, count: many(client, count, Keyring((b"k" * 32,))),
    "dispatch_many, dataclasses": typed,
    "rq enqueue_many": rq_many,
}
SINGLE: dict[str, Callable[[Any, int], None]] = {"dispatch": one_by_one, "rq enqueue": rq_one_by_one}


def measured(client: Any, way: Callable[[Any, int], None], count: int) -> float:
    client.flushall()
    gc.collect()
    started = time.perf_counter()
    way(client, count)
    seconds = time.perf_counter() - started
    if (depth := client.llen("rq:queue:default")) != count:
        raise LookupError(f"{depth} jobs in the queue, {count} were sent")
    return seconds


def compare(client: Any, ways: dict[str, Callable[[Any, int], None]], count: int, rounds: int) -> float:
    """Prints a table; how many times as fast as the last way the first one is."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(rounds):
        for name, way in ways.items():
            best[name] = min(best[name], measured(client, way, count))
    last = list(best.values())[-1]
    rows = [
        (name, f"{count / seconds:,.0f}", f"{seconds / count * 1e6:.1f}", f"{last / seconds:.2f}")
        for name, seconds in best.items()
    ]
    print(ground.table((f"{count:,} jobs", "jobs/s", "µs a job", f"times {list(best)[-1]}"), rows), end="\n\n")
    return last / next(iter(best.values()))


def main(count: int, rounds: int, least: float) -> int:
    with ground.own_server() as (_, client, _settings):
        print(ground.surroundings(client), end="\n\n")
        times = compare(client, MANY, count, rounds)
        compare(client, SINGLE, count // ONE_BY_ONE, rounds)
    return 0 if times >= least else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("count", nargs="?", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--least", type=float, default=4)
    asked = parser.parse_args()
    sys.exit(main(asked.count, asked.rounds, asked.least))
