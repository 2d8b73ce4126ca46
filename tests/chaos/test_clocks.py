"""Beats whose clock is wrong, and clocks that step while beats run: nothing early, nothing twice, nothing lost."""

from __future__ import annotations

import random
import signal
import time

import pytest

from scheduler.leader import LEASE_SECONDS
from tests.chaos.arena import SCALE, Arena, ArenaOn, rounds
from tests.chaos.checker import Verdict
from tests.chaos.conftest import MakeClock, Note, StartServer
from tests.chaos.nemesis import repeat
from tests.chaos.wrongclock import WrongClock
from tests.integration.conftest import wait_for

DRIFT_PPM = 200


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


@pytest.fixture
def redis_clock(wrong_clock: MakeClock) -> WrongClock:
    """The clock of the server that `arena_under` starts."""
    return wrong_clock()


@pytest.fixture
def arena_under(
    redis_clock: WrongClock, arena_on: ArenaOn, start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> Arena:
    """An arena whose Redis, and it alone, goes by `redis_clock`."""
    with monkeypatch.context() as patch:
        for name, value in redis_clock.environ.items():
            patch.setenv(name, value)
        own = start_server()
    return arena_on(own.url)


@pytest.mark.fault("F29")
def test_the_clock_of_redis_jumps(arena_under: Arena, redis_clock: WrongClock, note: Note) -> None:
    """An hour ahead, and back: beats step down, and what they then decide is neither early nor double."""
    arena = arena_under
    arena.declare()
    arena.start(2)
    arena.goes_on()
    for hours in (1, -1) * rounds(1):
        redis_clock.set(hours * 3600)
        wait_for(lambda: arena.leader() is None, 5, "nobody leads")
        before = arena.decided()
        time.sleep(1)
        assert arena.decided() == before
        redis_clock.set(0)
        arena.goes_on(within=6)
    note(2 * rounds(1), by_a_clock_that_jumped(arena.finish()))


@pytest.mark.fault("F30")
def test_the_clock_of_redis_is_behind_while_the_leader_dies(
    arena_under: Arena, redis_clock: WrongClock, note: Note
) -> None:
    """An hour behind for 3 s: a lease with a TTL would stay with the dead leader for an hour."""
    arena = arena_under
    arena.declare()
    arena.start()
    arena.has_leader()
    for _ in range(rounds(1)):
        leader = arena.has_leader()
        arena.start()
        arena.beats[-1].says("now standby")
        arena.goes_on()
        redis_clock.set(-3600)
        leader.kill()
        arena.beats.remove(leader)
        killed = time.monotonic()
        time.sleep(3)
        redis_clock.set(0)
        wait_for(arena.leader, killed + LEASE_SECONDS + 1 - time.monotonic(), "the standby leads")
        arena.goes_on()
    note(rounds(1), by_a_clock_that_jumped(arena.finish()))


def by_a_clock_that_jumped(verdict: Verdict) -> Verdict:
    """Without the gap, which would be told by that clock."""
    verdict.gap = 0
    return verdict


@pytest.mark.fault("F32")
@pytest.mark.parametrize("sign", [1, -1])
def test_a_clock_that_drifts(arena: Arena, wrong_clock: MakeClock, note: Note, sign: int) -> None:
    """200 parts in a million for half an hour, on every commit in a few seconds: no fire is early by Redis' clock."""
    seconds = min(1800.0, 4 * SCALE)
    arena.declare()
    clock = wrong_clock()
    arena.start(1, **clock.environ)
    arena.has_leader()
    clock.run_at(sign * DRIFT_PPM * 1800 / seconds, seconds)
    assert arena.said("not leading") == 0
    note(1, arena.finish())


@pytest.mark.fault("F35")
def test_a_machine_that_slept_for_ten_minutes(redis_clock: WrongClock, arena_under: Arena, note: Note) -> None:
    """Beats and Redis stand still together, and their clocks have gone on: a bounded catch-up, one range left out."""
    arena = arena_under
    arena.options["catchup_limit"] = 100
    arena.declare(count=3, period=1)
    arena.start(2, **redis_clock.environ)
    arena.goes_on(3)
    for beat in arena.beats:
        beat.process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_SECONDS)
    redis_clock.set(600)
    for beat in arena.beats:
        beat.process.send_signal(signal.SIGCONT)
    wait_for(lambda: any(entry.reason == "limit" for entry in arena.history()), 10, "the catch-up")
    verdict = arena.finish()
    missed = [entry.count for entry in arena.history() if entry.outcome == "missed"]
    assert len(missed) == 3
    assert all(495 <= count <= 505 for count in missed)
    assert arena.said("missed") == 3  # one line about each
    note(1, verdict, 600)
