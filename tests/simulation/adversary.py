"""The adversary: what goes wrong, and when, drawn from the world's seed.

Between a process and the store a call may be lost, its reply may be lost, it may arrive late (its sender has long given
up), or twice. A process may crash before or after any call and at any named point of its loop, or stand still there
while the others go on. Storms and calm take turns, so that both a start in trouble and a recovery are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from shared.errors import StoreUnavailableError
from tests.simulation.world import World

T = TypeVar("T")
TIMEOUT_MS = 2000
FATES = {
    "request lost": 4,
    "reply lost": 6,
    "late": 4,
    "twice": 3,
    "crash before": 2,
    "crash after": 3,
    "slow before": 8,
    "slow after": 8,
    "frozen before": 1.5,
    "frozen after": 1.5,
}


class Crash(BaseException):
    """A process is gone, at this very instruction. Nothing may catch it but the one who restarts it."""


class Adversary:
    """Faults for all processes. `rate` is how likely one is at each call."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._worst = world.rng.choice((0.02, 0.06, 0.15, 0.3))
        self._only = world.rng.choice((None, None, None, *FATES))
        self.rate = 0.0

    def turn_weather(self) -> None:
        """Storm after calm after storm."""
        self.rate = 0.0 if self.rate else self._worst
        self._world.after(self._world.rng.randrange(500, 12_000), self.turn_weather)

    def end(self) -> None:
        """Calm for good."""
        self.rate = self._worst = 0.0

    def deliver(self, who: str, what: str, carry_out: Callable[[], T]) -> T:
        """One call to the store, and its reply. Raises StoreUnavailableError, or Crash."""
        if self._world.rng.random() >= self.rate:
            return carry_out()
        fate = self._only or self._world.rng.choices(list(FATES), list(FATES.values()))[0]
        self._world.say(who, fate, what)
        result: T = getattr(self, "_" + fate.replace(" ", "_"))(carry_out)
        return result

    def reached(self, who: str, point: str) -> None:
        """A process passes a named point of its loop. Raises Crash."""
        if self._world.rng.random() >= self.rate / 8:
            return
        fate = self._world.rng.choice(("crash at", "slow at", "slow at", "frozen at"))
        self._world.say(who, fate, point)
        if fate == "crash at":
            raise Crash
        self._world.pass_time(self._slow() if fate == "slow at" else self._frozen())

    def between(self) -> None:
        """A gap within a store that is wrong: where the right one has a single step, a process may die here."""
        if self._world.rng.random() < self.rate:
            self._world.say("gap", "crash in a gap")
            raise Crash

    def _request_lost(self, _carry_out: Callable[[], T]) -> T:
        return self._give_up("the request was lost")

    def _reply_lost(self, carry_out: Callable[[], T]) -> T:
        carry_out()
        return self._give_up("the reply was lost")

    def _late(self, carry_out: Callable[[], T]) -> T:
        """It lies in a buffer somewhere, and is carried out when its sender has given up, or is gone."""
        delay = self._world.rng.choice((self._slow, self._frozen))()
        self._world.after(delay, lambda: self._arrive(carry_out))
        return self._give_up("the request is late")

    def _arrive(self, carry_out: Callable[[], object]) -> None:
        self._world.say("line", "late arrival")
        with suppress(Crash):  # nobody waits for it any more
            carry_out()

    def _twice(self, carry_out: Callable[[], T]) -> T:
        carry_out()
        return carry_out()

    def _crash_before(self, _carry_out: Callable[[], T]) -> T:
        raise Crash

    def _crash_after(self, carry_out: Callable[[], T]) -> T:
        carry_out()
        raise Crash

    def _slow_before(self, carry_out: Callable[[], T]) -> T:
        self._world.pass_time(self._slow())
        return carry_out()

    def _slow_after(self, carry_out: Callable[[], T]) -> T:
        result = carry_out()
        self._world.pass_time(self._slow())
        return result

    def _frozen_before(self, carry_out: Callable[[], T]) -> T:
        self._world.pass_time(self._frozen())
        return carry_out()

    def _frozen_after(self, carry_out: Callable[[], T]) -> T:
        result = carry_out()
        self._world.pass_time(self._frozen())
        return result

    def _slow(self) -> int:
        return self._world.rng.randrange(1, 400)

    def _frozen(self) -> int:
        """About as long as a lease: what matters is who leads afterwards."""
        return self._world.rng.randrange(500, 9000)

    def _give_up(self, why: str) -> T:
        self._world.pass_time(self._world.rng.choice((0, 1, TIMEOUT_MS)))
        raise StoreUnavailableError(why)
