"""Virtual time under one seed: what happens next, in which order, and what has happened. Nothing here waits.

An actor that takes time in the middle of what it does (a slow line, a frozen process) lets the others go on meanwhile
by `pass_time`. It runs what falls due until then inside the call, so no threads are needed, and one run is one order.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from random import Random

EPOCH_MS = 1_774_745_640_000
"""Where elapsed time starts on the wall: 2026-03-29 00:54 UTC, minutes before clocks change in Europe."""


class World:
    """Elapsed time in ms, the events to come, and the history of one run."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)  # noqa: S311 - no secret
        self.now = 0
        self.history: list[tuple[int, str, str]] = []
        self.seen: Counter[str] = Counter()
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._order = count()

    def after(self, ms: int, act: Callable[[], None]) -> None:
        """Let something happen in so many ms; of what falls on one instant, what was asked for first is first."""
        heapq.heappush(self._events, (self.now + ms, next(self._order), act))

    def pass_time(self, ms: int) -> None:
        """Let so much time pass, with all that happens in it."""
        until = self.now + ms
        while self._events and self._events[0][0] <= until:
            at, _, act = heapq.heappop(self._events)
            self.now = max(self.now, at)
            act()
        self.now = max(self.now, until)

    def say(self, who: str, what: str, detail: object = "") -> None:
        """Keep a step of the history. Steps are counted by their first words."""
        self.seen[what] += 1
        self.history.append((self.now, who, f"{what} {detail}".rstrip()))

    def told(self) -> list[str]:
        """The history, a line for each step: elapsed seconds, who, what."""
        return [f"{at / 1000:10.3f}  {who:<8} {what}" for at, who, what in self.history]


@dataclass(slots=True)
class Hand:
    """A clock of one machine: the world's time, and how far off its wall clock is, ms."""

    world: World
    offset: int = 0

    def now_ms(self) -> int:
        return EPOCH_MS + self.world.now + self.offset

    def monotonic(self) -> float:
        return self.world.now / 1000

    def sleep(self, seconds: float) -> None:
        self.world.pass_time(round(seconds * 1000))
