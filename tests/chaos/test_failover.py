"""A primary that is replaced: as planned, or because it was cut off while its clients still reached it.

What a primary acknowledged and its replica never heard is lost with it. Cursor and queue lie in the same place and are
lost together, so the fires of that time are enqueued again on the new primary, under the ids they had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.ports import LedgerEntry
from scheduler.readers import Reader
from shared.outbox import using_outbox
from shared.redisio.connection import connect
from shared.redisio.dispatch import RedisOutbox
from tests.chaos.arena import SCALE, Arena, ArenaOn, Tick
from tests.chaos.conftest import Note
from tests.chaos.trio import Node, Trio
from tests.integration.conftest import wait_for

SPLIT_SECONDS = 6.0 if SCALE > 1 else 3.0
StartTrio = Callable[..., Trio]


@pytest.fixture
def start_trio(tmp_path: Path) -> Iterator[StartTrio]:
    """Starts a trio with options of `redis.conf`."""
    started: list[Trio] = []

    def start(*options: str, down_after: int = 1000) -> Trio:
        started.append(Trio(tmp_path, *options, down_after=down_after))
        return started[-1]

    yield start
    for trio in started:
        trio.close()


def arena_over(trio: Trio, arena_on: ArenaOn) -> Arena:
    """An arena whose schedules are on the primary, and whose beats ask Sentinel for it; it looks there itself."""
    arena = arena_on(trio.primary.url)
    arena.url = trio.url
    arena.declare()
    return arena


def look_at(node: Node, arena: Arena) -> None:
    """From now on the arena looks at another server."""
    arena.client.close()
    arena.client = connect(node.url, name="arena")
    arena.direct = node.url


def acknowledged(node: Node, arena: Arena) -> list[LedgerEntry]:
    return Reader(node.client, arena.keys).history(None, most=1_000_000)


@pytest.mark.fault("F24")
def test_a_planned_failover(arena_on: ArenaOn, start_trio: StartTrio, note: Note) -> None:
    """The beats follow to the new primary, and every fire is decided there once."""
    trio = start_trio()
    arena = arena_over(trio, arena_on)
    arena.start(2)
    arena.goes_on()
    trio.fail_over()
    wait_for(lambda: trio.names(trio.replica), 10, "the replica is promoted")
    look_at(trio.replica, arena)
    arena.goes_on(within=10)
    verdict = arena.finish()
    assert verdict.gap <= 10
    note(1, verdict)


@pytest.mark.fault("F27")
def test_beat_and_worker_of_a_demoted_primary(
    arena_on: ArenaOn, start_trio: StartTrio, redis_url: str, note: Note
) -> None:
    """The primary takes no writes from one moment to the next: beat and worker are at the other one within 5 s."""
    trio = start_trio()
    arena = arena_over(trio, arena_on)
    arena.runs = redis_url
    arena.start()
    worker = arena.spawn("worker", "aside", RQBEAT_APP="app:scheduler", RQBEAT_REDIS_URL=arena.url)
    worker.says("serves aside")
    arena.goes_on()
    trio.fail_over()
    wait_for(lambda: trio.names(trio.replica), 10, "the replica is promoted")
    trio.primary.follow(trio.replica)
    look_at(trio.replica, arena)
    arena.goes_on(1, within=5)
    with using_outbox(RedisOutbox(arena.client, arena.keys)):
        Tick.options(queue="aside").dispatch(0)
    wait_for(arena.ran, 5, "a run")
    note(1, arena.finish())
    assert worker.terminate(20) == 0


class Split:
    """One beat at a primary that is cut off, another at the one that was promoted in its place, for a while.

    Sentinel is silent meanwhile: it would tell the first beat.
    """

    def __init__(self, arena: Arena, trio: Trio) -> None:
        arena.start()
        arena.goes_on()
        began = time.monotonic()
        self.began = time.time() * 1000
        with trio.primary.is_cut_off():
            wait_for(lambda: trio.names(trio.replica), 15, "the replica is promoted")
            self.promoted = time.time() * 1000
            kept = {entry.job_id for entry in acknowledged(trio.replica, arena)}
            arena.beats.append(arena.beat(trio.replica.url))
            with trio.sentinel_is_silent():
                time.sleep(SPLIT_SECONDS)
            entries = acknowledged(trio.primary, arena)
            look_at(trio.replica, arena)
            trio.primary.client.replicaof("127.0.0.1", str(trio.replica.port))
        self.lasted = time.monotonic() - began
        self.lost = [entry for entry in entries if entry.job_id not in kept]
        arena.goes_on(within=10)


def test_a_worker_follows_while_the_old_primary_still_answers(
    arena_on: ArenaOn, start_trio: StartTrio, redis_url: str
) -> None:
    """What it did at the old one would be lost with it; Sentinel demotes that one some ten seconds later."""
    trio = start_trio()
    arena = arena_over(trio, arena_on)
    arena.runs = redis_url
    worker = arena.spawn("worker", "aside", RQBEAT_APP="app:scheduler", RQBEAT_REDIS_URL=arena.url)
    worker.says("serves aside")
    with trio.primary.is_cut_off():
        wait_for(lambda: trio.names(trio.replica), 15, "the replica is promoted")
        look_at(trio.replica, arena)
        with using_outbox(RedisOutbox(arena.client, arena.keys)):
            Tick.options(queue="aside").dispatch(0)
        wait_for(arena.ran, 4, lambda: f"a run\n{worker.text}")
        assert trio.primary.client.info("replication")["role"] == "master"
    assert worker.terminate(20) == 0


@pytest.mark.fault("F25")
def test_a_split_brain(arena_on: ArenaOn, start_trio: StartTrio, note: Note) -> None:
    """What the old primary fired while it was cut off is fired again at the new one, and nothing else is."""
    trio = start_trio()
    arena = arena_over(trio, arena_on)
    split = Split(arena, trio)
    verdict = arena.finish()
    assert len(split.lost) > 50 * SPLIT_SECONDS
    assert all(entry.decided >= split.began - 100 for entry in split.lost)
    assert {entry.job_id for entry in split.lost} <= {entry.job_id for entry in arena.history()}
    note(1, verdict)


@pytest.mark.fault("F26")
def test_a_split_brain_with_a_replica_to_write_to(arena_on: ArenaOn, start_trio: StartTrio, note: Note) -> None:
    """With min-replicas-to-write the old primary acknowledges nothing more by the time another is promoted."""
    trio = start_trio("--min-replicas-to-write", "1", "--min-replicas-max-lag", "2", down_after=2500)
    arena = arena_over(trio, arena_on)
    split = Split(arena, trio)
    verdict = arena.finish()
    assert [entry for entry in split.lost if entry.decided >= split.promoted] == []
    assert arena.said("NOREPLICAS")
    note(1, verdict, split.lasted)
