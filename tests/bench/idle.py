"""What stored schedules cost a beat while none of them is due.

    python tests/bench/idle.py [COUNT…] [--declared COUNT] [--seconds 30]      10 100000 1000000, 100000, unless given

COUNT schedules, due in many years, are stored through the admin API as made at run time, and then a beat starts, as a
process of its own. With --declared the app declares them; its beat starts twice: on an empty Redis, so that it has to
store them, and again when all of them are stored just so. One more schedule is due when the beat starts, so that it has
a first decision to make. Last, so many schedules are registered alone, and the round trips counted.

    first     from the start of the process to its first decision, s
    CPU       of the beat over the seconds in which nothing is due, in per cent of one core
    RSS       of the beat at the end of that time; and its peak, MB
    each      memory of the server for each schedule, bytes
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

from bench_app import YEAR_2100
from bench_jobs import Nothing
from ground import beat, cpu_seconds, memory_mb, own_server, said, surroundings, table, wait_until
from redis.connection import AbstractConnection

from scheduler.admin import Admin
from scheduler.schedule import Owner, Schedule, build
from scheduler.triggers import DateTrigger, IntervalTrigger
from scheduler.wiring import open_declared
from shared.clock import SystemClock
from shared.redisio.server import OwnServer
from shared.settings import Settings

HEAD = ("schedules", "first s", "CPU %", "RSS MB", "peak MB", "each B")
CHUNK = 10_000
SETTLE_SECONDS = 5
START_SECONDS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """The figures of one beat."""

    first: float
    cpu: float
    rss: float
    peak: float
    each: float

    def row(self, label: str) -> list[object]:
        each = f"{self.each:,.0f}" if self.each else "-"
        return [label, f"{self.first:.2f}", f"{self.cpu:.2f}", f"{self.rss:.0f}", f"{self.peak:.0f}", each]


@dataclass(slots=True)
class Sent:
    """How often something was sent to the server, which is how often its answer was waited for."""

    count: int = 0


@contextmanager
def counted() -> Iterator[Sent]:
    """Count the round trips of the block."""
    sent, send = Sent(), AbstractConnection.send_packed_command

    def counting(self: AbstractConnection, *args: Any, **kwargs: Any) -> None:
        sent.count += 1
        send(self, *args, **kwargs)

    with patch.object(AbstractConnection, "send_packed_command", counting):
        yield sent


def far_schedules(start: int, count: int, owner: Owner = "runtime") -> list[Schedule]:
    trigger = IntervalTrigger(3600, start=YEAR_2100)
    numbers = range(start, start + count)
    return [build(Nothing, trigger, {"id": f"far-{number}", "args": [number]}, owner=owner) for number in numbers]


def store(client: Any, settings: Settings, count: int) -> None:
    """Store that many through the admin API, in parts, so that this process does not hold them all."""
    admin = Admin(client, settings.keys, SystemClock(), "bench")
    for start in range(0, count, CHUNK):
        admin.upsert(far_schedules(start, min(CHUNK, count - start)))


def make_one_due(client: Any, settings: Settings) -> None:
    """A schedule made at run time that is due already; what an earlier beat enqueued is forgotten."""
    client.delete("rq:queue:default")
    due = time.time() - 1
    one = build(Nothing, DateTrigger(round(due, 3)), {"id": f"due-{due:.3f}", "args": [0]}, owner="runtime")
    Admin(client, settings.keys, SystemClock(), "bench").upsert([one])


def watched(
    server: OwnServer, client: Any, settings: Settings, app: str, count: int, seconds: float, each: float
) -> Idle:
    """Start a beat and take its figures. Raises TimeoutError, with its last words, when it decides nothing."""
    make_one_due(client, settings)
    with beat(server, app, RQBENCH_COUNT=count) as pid:
        try:
            first = wait_until(lambda: client.llen("rq:queue:default"), START_SECONDS, "a first decision")
        except TimeoutError:
            raise TimeoutError(said(server).splitlines()[-1]) from None
        time.sleep(SETTLE_SECONDS)
        before, started = cpu_seconds(pid), time.perf_counter()
        time.sleep(seconds)
        cpu = (cpu_seconds(pid) - before) / (time.perf_counter() - started) * 100
        return Idle(first=first, cpu=cpu, rss=memory_mb(pid), peak=memory_mb(pid, "VmHWM"), each=each)


def runtime(count: int, seconds: float) -> Iterator[tuple[str, Idle | str]]:
    with own_server() as (server, client, settings):
        empty = client.info("memory")["used_memory"]
        store(client, settings, count)
        each = (client.info("memory")["used_memory"] - empty) / count if count >= 1000 else 0.0
        yield f"{count:,} made at run time", figures(server, client, settings, "nothing_declared", count, seconds, each)


def declared(count: int, seconds: float) -> Iterator[tuple[str, Idle | str]]:
    with own_server() as (server, client, settings):
        for label in ("on an empty Redis", "all stored"):
            found = figures(server, client, settings, "far_away_app", count, seconds, 0)
            yield f"{count:,} declared, {label}", found


def figures(
    server: OwnServer, client: Any, settings: Settings, app: str, count: int, seconds: float, each: float
) -> Idle | str:
    """The figures, or the last words of a beat that decided nothing."""
    try:
        return watched(server, client, settings, f"bench_app:{app}", count, seconds, each)
    except TimeoutError as error:
        return str(error)


def registered(count: int) -> Iterator[str]:
    """How long it takes to register so many, in one process, and how often the server is asked for it."""
    with own_server() as (_server, client, settings):
        admin, made = Admin(client, settings.keys, SystemClock(), "bench"), far_schedules(0, count)
        yield _timed(f"{count:,} by Admin.upsert", lambda: admin.upsert(made))
        yield _timed(f"{count:,} by Admin.upsert, unchanged", lambda: admin.upsert(made))
    with own_server() as (_server, client, settings):
        apart = open_declared(settings, far_schedules(0, count, "app"), client)
        yield _timed(f"{count:,} declared", lambda: apart.apply(apart.compare()))
        yield _timed(f"{count:,} declared, unchanged", lambda: apart.apply(apart.compare()))
        none = open_declared(settings, [], client)
        yield _timed(f"{count:,} no longer declared", lambda: none.apply(none.compare(), force=True))


def _timed(label: str, act: Any) -> str:
    started = time.perf_counter()
    with counted() as sent:
        try:
            act()
            told = ""
        except Exception as error:  # noqa: BLE001 - a figure of its own: what such a number comes to
            told = f", and failed: {error}"
    return f"- {label}: {time.perf_counter() - started:.1f} s, {sent.count:,} round trips{told}"


def verdict(found: dict[str, Idle | str]) -> Iterator[str]:
    """Each row against the first one."""
    (first, base), *others = found.items()
    for label, one in found.items():
        if isinstance(one, Idle):
            yield f"{label}: {'below' if one.cpu < 0.5 else 'NOT below'} 0.5 % of a core ({one.cpu:.2f} %)"
    for label, one in others:
        if isinstance(one, Idle) and isinstance(base, Idle):
            more, later = one.rss - base.rss, one.first - base.first
            yield f"{label}: {more:+.0f} MB ({'within' if more <= 20 else 'NOT within'} 20) against {first}"
            yield f"{label}: first decision {later:+.2f} s ({'within' if later <= 2 else 'NOT within'} 2)"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="the cost of schedules that are not due")
    parser.add_argument("counts", type=int, nargs="*", default=[10, 100_000, 1_000_000])
    parser.add_argument("--declared", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=30)
    return parser.parse_args()


def rows(chosen: argparse.Namespace) -> Iterator[tuple[str, Idle | str]]:
    for count in chosen.counts:
        yield from runtime(count, chosen.seconds)
    if chosen.declared:
        yield from declared(chosen.declared, chosen.seconds)


def shown(label: str, one: Idle | str) -> Sequence[object]:
    return one.row(label) if isinstance(one, Idle) else [f"{label}: {one}", *["-"] * (len(HEAD) - 1)]


def main() -> None:
    chosen = options()
    with own_server() as (_server, client, _settings):
        print(surroundings(client), flush=True)
    found = dict(rows(chosen))
    print(f"\n{table(HEAD, [shown(label, one) for label, one in found.items()])}\n")
    for sentence in verdict(found):
        print(f"- {sentence}")
    if chosen.declared:
        print("\nRegistering:\n")
        for line in registered(chosen.declared):
            print(line, flush=True)


if __name__ == "__main__":
    main()
