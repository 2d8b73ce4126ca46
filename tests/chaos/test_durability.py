"""An append-only file that ends too early: in the middle of a fire, or a second and a half before the power went."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest

from shared.redisio.server import OwnServer
from tests.chaos.arena import SCALE, Arena, ArenaOn, rounds
from tests.chaos.checker import Verdict, gather, judge
from tests.chaos.conftest import Note, StartServer
from tests.chaos.test_redis import DURABLE
from tests.chaos.test_workers import is_drained, start_workers
from tests.integration.conftest import wait_for

STEP = 41
MULTI, EXEC = b"*1\r\n$5\r\nMULTI\r\n", b"*1\r\n$4\r\nEXEC\r\n"
CUT_SECONDS = 1.5
SLACK_SECONDS = 1.0
"""From when a job is taken to when it notes that it runs, or from then to when its end is in the file."""


def file_of(folder: Path) -> Path:
    """The part of the append-only file that grows."""
    return next((folder / "appendonlydir").glob("*.incr.aof"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the server keeps its data."""
    made = tmp_path / "data"
    made.mkdir()
    return made


@pytest.fixture
def fired(arena_on: ArenaOn, start_server: StartServer, folder: Path) -> tuple[Arena, OwnServer, bytes]:
    """An arena without beats, its server that is down, and the file with all that was fired."""
    own = start_server(*DURABLE, folder=folder)
    arena = arena_on(own.url)
    arena.declare(count=1)
    arena.start()
    arena.goes_on(5)  # what came due before there was a leader is decided at once
    arena.goes_on(3)
    arena.stop_beats()
    arena.beats.clear()
    own.kill()
    return arena, own, file_of(folder).read_bytes()


@pytest.mark.fault("F16")
def test_a_file_cut_at_every_41st_byte_of_two_fires(
    fired: tuple[Arena, OwnServer, bytes], folder: Path, note: Note
) -> None:
    """A fire is in the file as a whole or not at all: ledger, queue, records and cursor agree after every cut."""
    arena, own, whole = fired
    began = time.monotonic()
    verdicts = list(after_each_cut(arena, own, folder, whole, start_of_fires(whole, 2)))
    lasted = time.monotonic() - began
    assert len(verdicts) >= 48
    assert [verdict for verdict in verdicts if verdict.violations or not verdict.fires] == []
    assert len({verdict.fires for verdict in verdicts}) == 3  # without either, with one, with both
    own.start()
    arena.start()
    arena.goes_on()
    note(len(verdicts), arena.finish(), lasted)


@pytest.mark.fault("F61")
def test_a_file_without_transactions_is_found_out(fired: tuple[Arena, OwnServer, bytes], folder: Path) -> None:
    """The control: the same writes, cut in the same way, but not held together."""
    arena, own, whole = fired
    start = len(whole[: start_of_fires(whole, 2)].replace(MULTI, b"").replace(EXEC, b""))
    loose = whole.replace(MULTI, b"").replace(EXEC, b"")
    assert any(verdict.violations for verdict in after_each_cut(arena, own, folder, loose, start))


def start_of_fires(whole: bytes, count: int) -> int:
    """Where the latest fires begin: each is one transaction with a push in it."""
    at = len(whole)
    for _ in range(count):
        at = whole.rindex(b"RPUSH", 0, at)
        at = whole.rindex(MULTI, 0, at)
    return at


def after_each_cut(arena: Arena, own: OwnServer, folder: Path, whole: bytes, start: int) -> Iterator[Verdict]:
    """What the checker says of the server on each shorter file: all up to its cursors, whatever they are then."""
    for offset in range(start, len(whole), STEP):
        file_of(folder).write_bytes(whole[:offset])
        own.start()
        yield judge(gather(arena.client, arena.keys, list(arena.triggers)), arena.triggers, 0)
        arena.client.close()
        own.kill()


@pytest.mark.fault("F17")
def test_a_power_cut_that_loses_a_second_and_a_half(
    arena_on: ArenaOn, start_server: StartServer, folder: Path, redis_url: str, note: Note
) -> None:
    """Cursor and queue roll back together: what runs again ran in that time, and nothing is lost."""
    own = start_server("--appendonly", "yes", "--appendfsync", "everysec", folder=folder)
    arena = arena_on(own.url)
    arena.has_workers, arena.runs = True, redis_url
    arena.declare(4 + 6 * rounds(1), count=3, period=0.2)
    workers = start_workers(arena, 2)
    arena.start(2)
    cuts = []
    for cut in range(rounds(1)):
        more = len(arena.ran()) + (75 if cut else 30)  # until no end of a run waits for Redis since the last time
        with sizes_of(file_of(folder)) as sizes:
            wait_for(lambda: len(arena.ran()) > more, 30, "runs")  # noqa: B023 - called here
        own.kill()
        cuts.append(cut_back(file_of(folder), sizes))
        own.start()
        arena.goes_on()
    verdict = judge_runs(arena)
    assert verdict.violations == [], arena.logs()
    repeated = again(arena.run_times())
    assert repeated
    after = [min((at - cut for cut in cuts), key=abs) for at in repeated]
    assert all(-SLACK_SECONDS <= seconds <= CUT_SECONDS + SLACK_SECONDS for seconds in after), sorted(after)
    note(len(cuts), verdict)
    assert [worker.terminate(30) for worker in workers] == [0, 0]


@contextmanager
def sizes_of(file: Path) -> Iterator[list[tuple[float, int]]]:
    """Within the block, how large the file was and when, up to now."""
    sizes: list[tuple[float, int]] = []
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(0.02):
            sizes.append((time.time(), file.stat().st_size))

    thread = threading.Thread(target=look)
    thread.start()
    yield sizes
    is_over.set()
    thread.join()


def cut_back(file: Path, sizes: list[tuple[float, int]]) -> float:
    """Take from a file what was written in its last second and a half. Returns from when on."""
    cut = sizes[-1][0] - CUT_SECONDS
    kept = list(takewhile(lambda size: size[0] <= cut, sizes))
    with file.open("r+b") as opened:
        opened.truncate(kept[-1][1])
    return cut


def judge_runs(arena: Arena) -> Verdict:
    """The verdict when all is decided and run. A job that was running at the cut is recovered within 90 s: on every
    commit it is enough that it is where it will be."""
    wait_for(lambda: arena.is_decided(arena.end), 20 * SCALE, lambda: f"all decided\n{arena.logs()}")
    keys, client = arena.keys, arena.client
    if SCALE > 1:
        wait_for(lambda: is_drained(arena), 100, lambda: f"all run\n{arena.logs()}")
    wait_for(lambda: not client.llen(keys.rq_queue("default")), 30, lambda: f"all taken\n{arena.logs()}")
    time.sleep(0.5)  # the last ones that were taken
    arena.stop_beats()
    running: Any = client.zrange(keys.rq_registry("wip", "default"), 0, -1)
    taken: Any = client.lrange(keys.rq_taken("default"), 0, -1)
    held = {row.decode().partition(":")[0] for row in (*running, *taken)}
    found = gather(client, keys, list(arena.triggers), arena.ran() + Counter(held))
    found = replace(found, statuses={**found.statuses, **dict.fromkeys(held, "finished")})
    return judge(found, arena.triggers, int(arena.end * 1000) - 1)


def again(runs: list[tuple[str, float]]) -> list[float]:
    """When each job that ran more than once ran first."""
    first: dict[str, float] = {}
    return [first[key] for key, at in sorted(runs, key=lambda run: run[1]) if first.setdefault(key, at) != at]
