"""Beats whose clock is wrong, and clocks that step while beats run: nothing early, nothing twice, nothing lost."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.chaos.arena import SCALE, Arena, ArenaOn, rounds
from tests.chaos.conftest import Note, StartServer
from tests.chaos.nemesis import repeat
from tests.integration.conftest import wait_for

SOURCE = Path(__file__).with_name("clockshim.c")


class WrongClock:
    """A clock of one process that is off by so many seconds, and can be set while it runs."""

    def __init__(self, shim: Path, file: Path, seconds: float) -> None:
        self._file = file
        self.set(seconds)
        self.environ = {"LD_PRELOAD": str(shim), "CLOCKSHIM_FILE": str(file)}

    def set(self, seconds: float) -> None:
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1000)))


MakeClock = Callable[..., WrongClock]


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim. Skipped where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler: a process' clock can't be shifted")
    library = tmp_path_factory.mktemp("shim") / "clockshim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return library


@pytest.fixture
def wrong_clock(shim: Path, tmp_path: Path) -> MakeClock:
    """Makes clocks that are off; their `environ` starts a process under one."""
    made: list[WrongClock] = []

    def make(seconds: float = 0) -> WrongClock:
        made.append(WrongClock(shim, tmp_path / f"offset-{len(made)}", seconds))
        return made[-1]

    return make


def test_dup_beats_with_clock_skew(arena: Arena, wrong_clock: MakeClock, note: Note) -> None:
    """Two seconds behind, right, two ahead; each leads in turn, and the same nominal times come out."""
    arena.declare()
    offsets = (-2, 0, 2)
    for seconds in offsets * rounds(1):
        beat = arena.beat(**wrong_clock(seconds).environ)
        beat.says("now leader")
        arena.goes_on(50)
        beat.kill()
        arena.bury_leader()
    arena.start()
    note(len(offsets) * rounds(1), arena.finish())


def test_a_clock_far_off_does_not_lead(arena: Arena, wrong_clock: MakeClock, note: Note) -> None:
    """Seven seconds behind it says so and leaves the lease alone; put right, it stands for leader."""
    arena.declare()
    clock = wrong_clock(-7)
    arena.start(1, **clock.environ)
    arena.beats[0].says("not leading: this host's clock is -7.0 s off Redis' clock")
    assert arena.decided() == 0
    clock.set(0)
    arena.goes_on(within=5)
    note(1, arena.finish())


@pytest.mark.parametrize("seconds", [6 * 3600, -2 * 3600])
def test_clock_step(arena: Arena, wrong_clock: MakeClock, note: Note, seconds: int) -> None:
    """The leader's clock jumps by hours: it steps down, the standby goes on at once, and no fire is early."""
    arena.declare()
    clock = wrong_clock()
    arena.start(1, **clock.environ)
    arena.has_leader()
    arena.start()
    arena.beats[1].says("now standby")
    arena.goes_on()
    clock.set(seconds)
    wait_for(lambda: arena.leader() is arena.beats[1], 4, "the standby leads")
    assert "not leading: this host's clock is" in arena.beats[0].text
    arena.goes_on()
    verdict = arena.finish()
    assert verdict.gap < 2
    note(1, verdict)


def test_clock_small_steps(arena: Arena, wrong_clock: MakeClock, rng: random.Random, note: Note) -> None:
    """The clock of the beat that leads is set back and forth by up to two seconds, again and again."""
    arena.declare(4 * SCALE)
    clock = wrong_clock()
    arena.start(1, **clock.environ)
    arena.has_leader()
    steps = repeat(arena, 0.3, lambda: clock.set(rng.uniform(-2, 2)))
    clock.set(0)
    note(steps, arena.finish())


@pytest.mark.fault("F29")
def test_the_clock_of_redis_jumps(
    arena_on: ArenaOn, start_server: StartServer, wrong_clock: MakeClock, monkeypatch: pytest.MonkeyPatch, note: Note
) -> None:
    """An hour ahead, and back: beats step down, and what they then decide is neither early nor double."""
    clock = wrong_clock()
    with monkeypatch.context() as patch:
        for name, value in clock.environ.items():
            patch.setenv(name, value)
        own = start_server()
    arena = arena_on(own.url)
    arena.declare()
    arena.start(2)
    arena.goes_on()
    for hours in (1, -1):
        clock.set(hours * 3600)
        wait_for(lambda: arena.leader() is None, 5, "nobody leads")
        before = arena.decided()
        time.sleep(1)
        assert arena.decided() == before
        clock.set(0)
        arena.goes_on(within=6)
    verdict = arena.finish()
    verdict.gap = 0  # it would be told by the clock that jumped
    note(2, verdict)
