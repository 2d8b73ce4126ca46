"""Everything at once: 200 schedules, three beats whose clocks differ, and whatever may happen to them, for a while.

In the long form each of twenty seeds is a row of the table, and `RQTEST_SEED` repeats one of them.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from scheduler.leader import LEASE_SECONDS
from shared.redisio.server import OwnServer
from tests.chaos.arena import SCALE, Arena, ArenaOn
from tests.chaos.conftest import MakeClock, Note, StartServer
from tests.chaos.test_network import sha
from tests.chaos.test_redis import DURABLE
from tests.chaos.wrongclock import WrongClock
from tests.integration.conftest import Program
from tests.proxy import Proxy

SEEDS = 20 if SCALE > 1 and "RQTEST_SEED" not in os.environ else 1
SECONDS = 30.0 if SCALE > 1 else 15.0
OFFSETS = (-1.5, 0.0, 1.5)


class Adversary:
    """Does one thing after the other, drawn from a seed. `frozen` are beats, each with when it wakes up (monotonic)."""

    def __init__(
        self, arena: Arena, own: OwnServer, proxy: Proxy, clocks: list[WrongClock], rng: random.Random
    ) -> None:
        self._arena, self._own, self._proxy, self._clocks, self._rng = arena, own, proxy, clocks, rng
        self._frozen: list[tuple[float, Program]] = []
        self.done: dict[str, int] = {}

    def act(self) -> None:
        """One thing, after a while."""
        time.sleep(self._rng.uniform(0.05, 0.6))
        self._wake_up(time.monotonic())
        acts = (self.kill, self.freeze, self.kill_redis, self.lose_replies, self.lose_requests, self.reset, self.step)
        act = self._rng.choices(acts, (6, 3, 2, 4, 2, 2, 4))[0]
        act()
        self.done[act.__name__] = self.done.get(act.__name__, 0) + 1

    def kill(self) -> None:
        """Every other time the lease of a dead leader is given back at once."""
        at = self._rng.randrange(len(self._clocks))
        self._arena.replace(self._arena.beats[at], **self._clocks[at].environ)
        if self._rng.random() < 0.5:
            self._arena.bury_leader()

    def freeze(self) -> None:
        """Mostly for longer than the lease."""
        beat = self._rng.choice(self._arena.beats)
        beat.process.send_signal(signal.SIGSTOP)
        self._frozen.append((time.monotonic() + self._rng.uniform(0.5, 1.5) * LEASE_SECONDS, beat))

    def kill_redis(self) -> None:
        self._own.kill()
        time.sleep(self._rng.uniform(0, 0.3))
        self._own.start()
        self._arena.client.connection_pool.disconnect()

    def lose_replies(self) -> None:
        self._proxy.every, self._proxy.cut, self._proxy.precut = 2, sha("commit"), None

    def lose_requests(self) -> None:
        self._proxy.every, self._proxy.cut, self._proxy.precut = 2, None, sha("commit")

    def reset(self) -> None:
        """And from here on nothing is lost."""
        self._proxy.cut = self._proxy.precut = None
        self._proxy.reset_all()

    def step(self) -> None:
        self._rng.choice(self._clocks).set(self._rng.uniform(-2, 2))

    def relent(self) -> None:
        """Let everybody go, and lose nothing more. Clocks stay as they are."""
        self._proxy.cut = self._proxy.precut = None
        self._wake_up(float("inf"))

    def _wake_up(self, now: float) -> None:
        for _, beat in (one for one in self._frozen if one[0] <= now):
            if beat.process.poll() is None:
                beat.process.send_signal(signal.SIGCONT)
        self._frozen = [one for one in self._frozen if one[0] > now]


@pytest.mark.fault("all")
@pytest.mark.parametrize("number", [f"{n:02}" for n in range(1, SEEDS + 1)])
def test_everything_at_once(
    arena_on: ArenaOn,
    start_server: StartServer,
    wrong_clock: MakeClock,
    rng: random.Random,
    note: Note,
    number: str,
) -> None:
    """The ledger is what the triggers yield, and RQ's jobs are what the ledger says was enqueued, each once."""
    own = start_server(*DURABLE)
    arena = arena_on(own.url)
    proxy = Proxy(Path(own.socket))
    arena.url = proxy.url
    clocks = [wrong_clock(seconds) for seconds in OFFSETS]
    arena.declare(SECONDS, count=200, period=(1, 5))
    arena.beats += [arena.beat(**clock.environ) for clock in clocks]
    adversary = Adversary(arena, own, proxy, clocks, rng)
    try:
        for _ in arena.ticks():
            adversary.act()
        adversary.relent()
        verdict = arena.finish(30)
    finally:
        print(adversary.done)
        proxy.close()
    assert verdict.fires == 120 * SECONDS
    note(sum(adversary.done.values()), verdict)
