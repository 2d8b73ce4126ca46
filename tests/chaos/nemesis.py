"""The adversary: what is done to beats while they work, at moments drawn from a seed."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

from tests.chaos.arena import Arena
from tests.integration.conftest import Program


def kill_beats(arena: Arena, rng: random.Random) -> int:
    """SIGKILL a random beat every 0.15 to 0.6 s until the schedules end, and start another; how many.

    At that rate no standby lives through a dead leader's lease, so every other time the lease is given back at once.
    """
    killed = 0
    for _ in arena.ticks():
        time.sleep(rng.uniform(0.15, 0.6))
        arena.replace(rng.choice(arena.beats))
        killed += 1
        if rng.random() < 0.5:
            arena.bury_leader()
    return killed


def kill_leaders_at_work(arena: Arena, rng: random.Random, kills: int) -> int:
    """SIGKILL the leader at a random moment within 50 ms after it has enqueued something, and start another."""
    for _ in range(kills):
        leader = arena.has_leader()
        arena.goes_on(1)
        time.sleep(rng.uniform(0, 0.05))
        arena.replace(leader)
        arena.bury_leader()
    return kills


def freeze(beat: Program, seconds: float) -> None:
    """SIGSTOP a beat for a while, as a suspended machine or a stalled disk would."""
    beat.process.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    beat.process.send_signal(signal.SIGCONT)


def repeat(arena: Arena, seconds: float, act: Callable[[], object]) -> int:
    """Act every so many seconds until the schedules end; how often."""
    count = 0
    for _ in arena.ticks():
        act()
        count += 1
        time.sleep(seconds)
    return count
