"""Workers: jobs are popped, run for a while and end, well or badly, some by way of a retry. And a count of what is
pushed, taken at the queues themselves.
"""

from __future__ import annotations

import heapq
from collections import Counter

from scheduler.memory import MemoryStore
from tests.simulation.account import Account
from tests.simulation.world import World


class Line(list[str]):
    """A queue that counts what is put into it."""

    def __init__(self, pushed: Counter[str]) -> None:
        super().__init__()
        self._pushed = pushed

    def insert(self, index: int, job_id: str) -> None:  # type: ignore[override]
        self._pushed[job_id] += 1
        super().insert(index, job_id)


class Queues(dict[str, list[str]]):
    """The queues by name, each made when it is first used."""

    def __init__(self) -> None:
        super().__init__()
        self.pushed: Counter[str] = Counter()

    def setdefault(self, name: str, _default: object = None) -> list[str]:
        return super().setdefault(name, Line(self.pushed))


class Workers:
    """All workers as one: each look pops some jobs and ends those whose time is over."""

    def __init__(self, world: World, store: MemoryStore, account: Account) -> None:
        self._world = world
        self._store = store
        self._account = account
        self._running: list[tuple[int, str, str]] = []
        self.at_once = 20

    def look(self) -> None:
        self._end_some()
        for name, queue in sorted(self._store.firing.queues.items()):
            for _ in range(min(self.at_once, len(queue))):
                self._start(queue.pop(0), "started", self._length(name))
        self._world.after(self._world.rng.randrange(20, 400), self.look)

    def _length(self, queue: str) -> int:
        return self._world.rng.choice((0, 50, 800, 4000)) if queue == "slow" else self._world.rng.randrange(150)

    def _start(self, job_id: str, status: str, ms: int) -> None:
        self._store.firing.jobs[job_id] = status
        heapq.heappush(self._running, (self._world.now + ms, job_id, status))

    def _end_some(self) -> None:
        while self._running and self._running[0][0] <= self._world.now:
            _, job_id, status = heapq.heappop(self._running)
            self._end(job_id, status)

    def _end(self, job_id: str, status: str) -> None:
        """A job ends; one in ten fails, and half of those wait for a retry first. Some records are forgotten."""
        draw = self._world.rng.random()
        if draw < 0.05 and status == "started":
            return self._start(job_id, "scheduled", 500)
        self._note_end(job_id, has_failed=draw < 0.1)
        if draw > 0.5:
            del self._store.firing.jobs[job_id]
        else:
            self._store.firing.jobs[job_id] = "failed" if draw < 0.1 else "finished"
        return None

    def _note_end(self, job_id: str, *, has_failed: bool) -> None:
        life = self._account.owner(job_id)
        entry = self._store.entries.get(life.id) if life else None
        if entry and self._account.living.get(entry.schedule.id) is life:
            entry.failures = entry.failures + 1 if has_failed else 0
