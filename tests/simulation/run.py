"""One run: three beats, people, workers and an adversary for as long as it takes to fire so often; then calm, and the
verdict. Everything comes from the seed, so a seed is a test case.
"""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from scheduler import ahead, planner, ticker
from scheduler.memory import MemoryStore
from tests.simulation import checker
from tests.simulation.account import Account
from tests.simulation.adversary import Adversary
from tests.simulation.meddler import Meddler
from tests.simulation.people import People
from tests.simulation.process import Process
from tests.simulation.wire import Wire
from tests.simulation.workers import Queues, Workers
from tests.simulation.world import Hand, World

BEATS = "abc"
SCHEDULES = 12
MOST_MS = 1_800_000
CALM_MS = 10_000
SETTLED_MS = 5000
PIECE_MS = 500
SIZES: Sequence[Mapping[str, int]] = (
    {},
    {"AHEAD_MS": 700, "HELD": 5},
    {"BATCH": 3, "FIRES_AT_ONCE": 4, "PLANNED_AT_ONCE": 1},
)
"""Every third seed runs beats that look ahead a little only, every third such that take little at once."""
BUSY = 250
"""Turns in a second that no beat may take: a healthy one was never seen to take a hundred."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """What is put to the test: the store's class, and the planner."""

    store: Callable[[Hand], MemoryStore] = MemoryStore
    plan: Callable[..., planner.Plan] = planner.plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run. `fires` are jobs enqueued by schedules, `decided` nominal times decided.

    `busiest` is the most turns that a beat took within a second.
    """

    seed: int
    fires: int
    decided: int
    turns: int
    busiest: int
    elapsed_ms: int
    seen: Counter[str]
    violations: list[str]
    history: list[str]


def run(seed: int, fires: int = 1000, design: Design | None = None) -> Outcome:
    """Run one seed until so many jobs are enqueued. Takes no real time but that of computing."""
    design = design or Design()
    with _from_seed(seed), _with(design.plan, SIZES[seed % len(SIZES)]):
        return _Run(seed, design).outcome(fires)


@contextmanager
def _with(plan: Callable[..., planner.Plan], sizes: Mapping[str, int]) -> Iterator[None]:
    """Beats with a planner of this kind, and with constants of other sizes."""
    with ExitStack() as stack:
        for module in (ticker, ahead):
            held = {name: size for name, size in sizes.items() if hasattr(module, name)}
            stack.enter_context(patch.multiple(module, plan=plan, **held))
        yield


@contextmanager
def _from_seed(seed: int) -> Iterator[None]:
    """The beat's back-off draws from the common source of chance; what it logs is in the history."""
    before, disabled = random.getstate(), logging.root.manager.disable
    random.seed(seed)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(disabled)
        random.setstate(before)


class _Run:
    def __init__(self, seed: int, design: Design) -> None:
        self._seed = seed
        self._world = world = World(seed)
        self._clock = Hand(world)
        self._store = design.store(self._clock)
        self._queues = self._store.firing.queues = Queues()
        self._account = Account(world, self._store)
        self._adversary = Adversary(world)
        if hasattr(self._store, "gap"):
            self._store.gap = self._adversary.between
        names = [f"s{number}" for number in range(SCHEDULES)]
        self._people = People(world, self._store, self._clock, self._account, names)
        self._workers = Workers(world, self._store, self._account)
        self._processes = [Process(f"beat-{one}", world, self._adversary, self._connect) for one in BEATS]
        self._meddler = Meddler(world, self._clock, self._people, self._processes, self._adversary)

    def outcome(self, fires: int) -> Outcome:
        self._begin()
        while self._fired() < fires and self._world.now < MOST_MS and not self._account.violations:
            self._world.pass_time(PIECE_MS)
        if not self._account.violations:
            self._calm_down()
        return self._told()

    def _fired(self) -> int:
        return self._queues.pushed.total() - self._people.requests

    def _begin(self) -> None:
        for number in range(SCHEDULES):
            self._people.add(f"s{number}")
        for process in self._processes:
            self._world.after(self._world.rng.randrange(1500), process.start)
        self._world.after(0, self._workers.look)
        self._world.after(1500, self._meddler.act)
        self._world.after(self._world.rng.randrange(4000), self._adversary.turn_weather)

    def _calm_down(self) -> None:
        """No more faults, right clocks, and time to settle. Then nothing may be overdue."""
        self._adversary.end()
        self._meddler.end()
        self._world.pass_time(CALM_MS)
        before = self._account.length()
        self._world.pass_time(SETTLED_MS)
        self._judge_calm(before)
        for entry in self._store.entries.values():
            self._account.removed(entry)
        self._account.violations += checker.judge(self._account.lives, self._store.firing.ledger, self._queues.pushed)

    def _judge_calm(self, before: int) -> None:
        """In the last seconds nothing is overdue or late, but for fires that had to wait for a job; no beat spins."""
        entries, since = self._store.entries, self._clock.now_ms() - SETTLED_MS
        late = checker.late(entries, self._store.firing.ledger[before:], since)
        late = [entry for entry in late if (entry.schedule, entry.nominal) not in self._account.waited]
        self._account.violations += checker.overdue(entries, since)
        self._account.violations += [f"late by {entry.decided - entry.due} ms: {entry}" for entry in late]
        for process in self._processes:
            if process.busiest > BUSY:
                self._account.violations.append(f"{process.name} took {process.busiest} turns in a second")

    def _connect(self, name: str) -> Wire:
        return Wire(name, self._store, self._account, self._adversary)

    def _told(self) -> Outcome:
        return Outcome(
            seed=self._seed,
            fires=self._fired(),
            decided=sum(entry.count for entry in self._store.firing.ledger),
            turns=sum(process.turns for process in self._processes),
            busiest=max(process.busiest for process in self._processes),
            elapsed_ms=self._world.now,
            seen=self._world.seen,
            violations=self._account.violations,
            history=self._world.told(),
        )
