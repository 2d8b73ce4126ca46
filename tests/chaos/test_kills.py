"""Beats that are killed, frozen, started together and stopped: every nominal time is still decided once."""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from scheduler.failpoint import POINTS, Point
from scheduler.leader import LEASE_SECONDS
from tests.chaos.arena import RQBEAT, SCALE, Arena, rounds
from tests.chaos.conftest import Note
from tests.chaos.nemesis import freeze, kill_beats, kill_leaders_at_work
from tests.integration.conftest import Program, wait_for
from tests.proxy import Proxy

FAILPOINT = "RQBEAT_FAILPOINT"
SLEEPY = str(Path(__file__).with_name("sleepy.py"))


@pytest.mark.fault("F01")
def test_beats_killed_at_random(arena: Arena, rng: random.Random, note: Note) -> None:
    arena.declare(5 * SCALE, count=20)
    arena.start(3)
    note(kill_beats(arena, rng), arena.finish())


@pytest.mark.fault("F01")
def test_dup_kill_between_enqueue_and_record(arena: Arena, rng: random.Random, note: Note) -> None:
    """The leader dies within 50 ms after a fire, again and again."""
    arena.declare()
    arena.start(2)
    kills = kill_leaders_at_work(arena, rng, rounds(8))
    arena.goes_on()
    note(kills, arena.finish())


@pytest.mark.fault("F02")
def test_a_beat_killed_at_each_point_of_its_loop(arena: Arena, rng: random.Random, note: Note) -> None:
    """One beat after the other dies as leader at one point; the last one decides what they left."""
    kills = [point for _ in range(rounds(1)) for point in rng.sample(POINTS, len(POINTS))]
    arena.declare(count=5)
    for point in kills:
        beat = arena.beat(**{FAILPOINT: f"{point}:{_nth(point, rng)}"})
        assert beat.ends(15) == -9, f"{point}: {beat.text}"
        arena.bury_leader()
    arena.start()
    verdict = arena.finish()
    assert arena.said("now leader") == len(kills) + 1  # each of them led when it died
    note(len(kills), verdict)


def _nth(point: Point, rng: random.Random) -> int:
    """The lease is renewed once a second, and what was planned ahead is not read again; the others are passed often."""
    return {"before-renew": 2, "after-renew": 2, "after-due": 1, "after-load": 1}.get(point) or rng.randint(2, 9)


@pytest.mark.fault("F05")
def test_three_beats_started_at_once_are_one_leader(arena: Arena, note: Note) -> None:
    arena.declare(1, lead=2)
    arena.start(3, CHAOS_BARRIER=str(arena.end - 1.5))
    wait_for(lambda: time.time() > arena.end, 5, "the end")
    verdict = arena.finish()
    assert (arena.said("now leader"), arena.said("now standby")) == (1, 2)
    assert arena.client.hget(arena.keys.leader, "term") == b"1"
    note(1, verdict)


@pytest.mark.fault("F03")
def test_a_leader_frozen_for_longer_than_its_lease_writes_nothing_more(
    arena: Arena, rng: random.Random, note: Note
) -> None:
    """Frozen for half a lease it goes on; frozen beyond it, it finds itself fenced, and says so."""
    spans = [share * LEASE_SECONDS for share in (0.5, 1.5, *(rng.uniform(0.5, 2.5) for _ in range(rounds(1) - 1)))]
    arena.declare()
    arena.start(2)
    for seconds in spans:
        leader = arena.has_leader()
        arena.goes_on()
        told = _times_told(leader)
        freeze(leader, seconds)
        if seconds >= 1.5 * LEASE_SECONDS:
            wait_for(lambda: _times_told(leader) > told, 3, "it learns that it leads no more")  # noqa: B023 - called here
    note(len(spans), arena.finish())


def _times_told(beat: Program) -> int:
    return beat.text.count("fenced") + beat.text.count("now standby")


@pytest.mark.fault("F03")
def test_a_frozen_leader_that_wakes_within_its_commit_is_fenced(arena: Arena, note: Note) -> None:
    """What it had planned before its sleep is refused as a whole, by the commit itself."""
    arena.declare()
    arena.program = (SLEEPY,)
    arena.start()
    sleeper = arena.has_leader()
    arena.program = RQBEAT
    arena.start()
    wait_for(lambda: arena.leader() is arena.beats[1], 10, "another leader")
    arena.goes_on()
    sleeper.process.send_signal(signal.SIGCONT)
    note(1, arena.finish())
    assert "fenced: another beat leads now; nothing was written" in sleeper.text


@pytest.mark.fault("F07")
def test_takeover_after_kills(arena: Arena, note: Note) -> None:
    """A standby is there: at most a lease and a second pass between two decisions, and nothing is lost."""
    kills = rounds(2)
    arena.declare()
    arena.start(2)
    for _ in range(kills):
        leader = arena.has_leader()
        wait_for(lambda: arena.said("now standby"), 10, "a standby")
        arena.goes_on()
        arena.replace(leader)
        wait_for(arena.leader, 10, "another leader")
    verdict = arena.finish()
    assert verdict.gap <= LEASE_SECONDS + 1
    note(kills, verdict)


def test_takeover_after_stops(arena: Arena, note: Note) -> None:
    """A leader that is told to stop gives the lease back: the next one decides within a second."""
    stops = rounds(4)
    arena.declare()
    arena.start(2)
    for _ in range(stops):
        leader = arena.has_leader()
        arena.goes_on(50)
        assert leader.terminate() == 0
        arena.beats[arena.beats.index(leader)] = arena.beat()
        wait_for(arena.leader, 5, "another leader")
        _wait_until_it_watches(arena)
    verdict = arena.finish()
    assert verdict.gap < 1
    note(stops, verdict)


def _wait_until_it_watches(arena: Arena) -> None:
    wait_for(lambda: all("now standby" in beat.text for beat in arena.standbys()), 10, "a standby")


def test_dup_reelection_reloads(arena: Arena, note: Note) -> None:
    """The leader's key is deleted ten times: the schedules stay as many as they were, and fire once."""
    arena.declare(count=20)
    arena.start(3)
    arena.has_leader()
    for _ in range(10):
        arena.goes_on(20)
        arena.client.delete(arena.keys.leader)
        time.sleep(0.1)
    verdict = arena.finish()
    assert arena.client.scard(arena.keys.schedules) == 20
    note(10, verdict)


@pytest.mark.fault("F35")
def test_clock_suspend_resume(arena: Arena, note: Note) -> None:
    """Everything is frozen at once, beats and all, for longer than the lease; it goes on without a restart."""
    arena.declare()
    arena.start(2)
    arena.has_leader()
    arena.goes_on()
    for beat in arena.beats:
        beat.process.send_signal(signal.SIGSTOP)
    time.sleep(LEASE_SECONDS + 1)
    for beat in arena.beats:
        beat.process.send_signal(signal.SIGCONT)
    arena.goes_on(within=3)
    note(1, arena.finish(), LEASE_SECONDS + 1)


@pytest.mark.fault("F56")
def test_dup_lock_shorter_than_pass(arena: Arena, proxy: Proxy, note: Note) -> None:
    """2,000 schedules due at one instant, 20 ms to each call, and a leader that dies on the way: each fires once.

    Deciding them all takes longer than the lease is trusted.
    """
    arena.declare(1, count=2000, period=1, lead=2.5)
    proxy.delay = 0.02
    arena.start(2)
    for beat in arena.beats:
        beat.says("now ", seconds=6)
    wait_for(arena.decided, 10, "the first fires")
    arena.replace(arena.has_leader())
    verdict = arena.finish()
    assert verdict.fires == 2000
    note(1, verdict)
