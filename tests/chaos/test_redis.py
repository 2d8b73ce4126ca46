"""Redis in trouble while beats fire: killed, emptied, full, loading, demoted, paused, wrong by a key."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shared.errors import StoreError
from shared.redisio.connection import connect
from shared.redisio.scripts import Script
from shared.redisio.server import OwnServer
from tests.chaos.arena import SCALE, Arena, ArenaOn, rounds
from tests.chaos.conftest import Note, StartServer
from tests.chaos.nemesis import repeat
from tests.integration.conftest import wait_for

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


@pytest.mark.fault("F14")
def test_redis_killed_seven_times(arena_on: ArenaOn, start_server: StartServer, rng: random.Random, note: Note) -> None:
    """kill -9 with appendfsync always: what was acknowledged is there again, and nothing is fired twice."""
    own = start_server(*DURABLE)
    arena = arena_on(own.url)
    arena.declare()
    arena.start(2)
    kills = rounds(7)
    for _ in range(kills):
        arena.goes_on(rng.randint(10, 40))
        own.kill()
        own.start()
    arena.goes_on()
    note(kills, arena.finish())
    assert arena.said("state lost") == 0


@pytest.mark.fault("F19")
def test_redis_noscript(arena: Arena, note: Note) -> None:
    """The script cache is emptied every 100 ms: nobody notices."""
    arena.declare(3 * SCALE)
    arena.start(2)
    flushes = repeat(arena, 0.1, arena.client.script_flush)
    note(flushes, arena.finish())
    assert arena.said("ERROR") == 0


@pytest.mark.fault("F21")
def test_redis_oom(arena_on: ArenaOn, start_server: StartServer, note: Note) -> None:
    """The memory limit is reached and lifted, again and again: one line for each time, and no half-written fire."""
    own = start_server()
    arena = arena_on(own.url)
    arena.declare()
    arena.start(2)
    for count in range(1, rounds(2) + 1):
        arena.goes_on()
        arena.client.config_set("maxmemory", "1mb")
        wait_for(lambda count=count: arena.said("takes no writes now") >= count, 10, "an error")  # type: ignore[misc]
        time.sleep(1)
        arena.client.config_set("maxmemory", "0")
        arena.goes_on(within=8)
    note(rounds(2), arena.finish())
    assert arena.said("OOM command not allowed") <= 2 * rounds(2)


@pytest.mark.fault("F22")
def test_redis_eviction_policy_names_the_setting(arena: Arena) -> None:
    arena.declare()
    arena.client.config_set("maxmemory-policy", "allkeys-lru")
    try:
        beat = arena.beat()
        assert beat.ends() == 2
        assert "maxmemory-policy allkeys-lru" in beat.text
        assert arena.decided() == 0
    finally:
        arena.client.config_set("maxmemory-policy", "noeviction")


@pytest.mark.fault("F23")
def test_a_queue_that_turns_into_something_else(arena: Arena, note: Note) -> None:
    """One schedule is set aside by name and key; the others go on, and it catches up when the key is mended."""
    arena.declare()
    arena.options["queue"] = "broken"
    broken = arena.tick(100, arena.triggers["tick-0"])
    arena.store([broken])
    with (arena.folder / "app.py").open("a") as app:
        app.write(
            f"scheduler.schedule(Tick, scheduler.list()[0].trigger, id='tick-100', args=[100], **{arena.options})\n"
        )
    arena.start(2)
    arena.goes_on()
    key = arena.keys.rq_queue("broken")
    arena.client.rename(key, "kept")
    arena.client.set(key, "not a list")
    wait_for(lambda: arena.said(f"tick-100: set aside: {key}"), 10, "a line that names schedule and key")
    arena.goes_on(50)
    assert arena.said("tick-0: set aside") == 0
    arena.client.rename("kept", key)
    wait_for(lambda: arena.said("tick-100: back at work"), 10, "the end of the trouble")
    note(1, arena.finish())


def test_redis_data_loss(arena: Arena) -> None:
    """FLUSHALL while beats run: said once, rebuilt from the declaration without a restart, and no mass fire."""
    arena.declare(count=5)
    arena.start(2)
    arena.goes_on(50)
    arena.client.flushall()
    emptied = time.time()
    wait_for(lambda: arena.said("state lost"), 5, "the loss is said")
    arena.goes_on(50)
    since = arena.born()
    assert since >= emptied * 1000 - 1
    verdict = arena.finish(since=since)
    assert verdict.fires <= 5 * (time.time() - emptied) * 10 + 5
    assert arena.said("state lost") == 1


def test_redis_loading(arena_on: ArenaOn, start_server: StartServer, tmp_path: Path, note: Note) -> None:
    """A server that is up and still loads its data: beats wait, say so, and go on by themselves."""
    own = start_server(*DURABLE)
    arena = arena_on(own.url)
    arena.declare(count=2)
    arena.start(2)
    arena.goes_on()
    pipe = arena.client.pipeline(transaction=False)
    for n in range(20_000):
        pipe.set("filler", n)
    pipe.execute()
    own.kill()
    slow = OwnServer(tmp_path, socket=own.socket, options=(*DURABLE, "--key-load-delay", "100"))
    slow.start()
    try:
        wait_for(lambda: arena.said("is loading"), 5, "a line")
        arena.goes_on(within=8)
        note(1, arena.finish())
    finally:
        slow.kill()


@pytest.mark.fault("F27")
def test_redis_failover_readonly(arena: Arena, note: Note) -> None:
    """The server is demoted, and promoted again: beats say READONLY, stay, and go on."""
    arena.declare()
    arena.start(2)
    for _ in range(rounds(1)):
        arena.goes_on()
        arena.client.replicaof("127.0.0.1", "1")
        try:
            wait_for(lambda: arena.said("takes no writes now"), 8, "a line")
            time.sleep(1)
        finally:
            arena.client.replicaof("NO", "ONE")
        arena.goes_on(within=6)
    note(rounds(1), arena.finish())


@pytest.mark.parametrize("kind", ["ALL", "WRITE"])
def test_redis_slow(arena: Arena, note: Note, kind: str) -> None:
    """The server answers nothing for longer than a beat waits: late fires, no others."""
    arena.declare()
    arena.start(2)
    for _ in range(rounds(1)):
        arena.goes_on()
        arena.client.execute_command("CLIENT", "PAUSE", 2500, kind)
        time.sleep(2.5)
        arena.goes_on(within=8)
    note(rounds(1), arena.finish(), 2.5)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB. Skipped where mounting is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(disk)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system of its own: {made.stderr.decode().strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


@pytest.mark.fault("F20")
@pytest.mark.parametrize("fsync", ["always", "everysec"])
def test_a_disk_that_is_full(
    small_disk: Path, arena_on: ArenaOn, start_server: StartServer, note: Note, fsync: str
) -> None:
    """Redis can't write its file: beats say so and wait. After a restart all that was acknowledged is there."""
    own = start_server("--appendonly", "yes", "--appendfsync", fsync, folder=small_disk)
    arena = arena_on(own.url)
    arena.declare(count=5)
    arena.start(2)
    arena.goes_on(50)
    fill(small_disk)
    acknowledged = _fires_until_trouble(arena)
    (small_disk / "filler").unlink()
    if fsync == "always":
        own.kill()  # it has ended by itself: it could not keep its word
    else:
        arena.goes_on(within=10)
        own.stop()
    own.start()
    assert acknowledged
    assert acknowledged <= {entry.job_id for entry in arena.history()}
    arena.goes_on(within=10)
    note(1, arena.finish())


def fill(disk: Path) -> None:
    """Take all the room there is."""
    with (disk / "filler").open("wb") as filler:
        filler.write(b"x" * shutil.disk_usage(disk).free)


def _fires_until_trouble(arena: Arena) -> set[str | None]:
    """What the server told of, up to when beats speak of trouble."""
    known: set[str | None] = set()

    def is_troubled() -> int:
        with contextlib.suppress(StoreError):
            known.update(entry.job_id for entry in arena.history())
        return arena.said("trying again")

    wait_for(is_troubled, 20, "a line")
    return known


@pytest.mark.fault("F19")
def test_a_script_is_run_however_often_redis_forgets_it(arena: Arena) -> None:
    """The cache is emptied without a pause: no call fails for it."""
    is_over = threading.Event()
    script = Script(arena.client, "lease_release")
    with ThreadPoolExecutor(1) as pool, connect(arena.direct) as forgetful:
        emptying = pool.submit(lambda: [forgetful.script_flush() for _ in iter(is_over.is_set, True)])
        answers = {script([arena.keys.leader, arena.keys.wake], ["nobody", "0"]) for _ in range(500)}
        is_over.set()
        assert len(emptying.result()) > 50
    assert answers == {0}
