"""Two people change fifty schedules while three beats fire them.

No change is lost silently: each either gets the next revision or is refused. No job is made from a definition older
than a change that came before its decision: the job's time-out is the revision of the definition that it is from.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from scheduler.admin import Admin
from shared.clock import SystemClock
from shared.errors import ConflictError
from shared.redisio.connection import connect
from tests.chaos.arena import SCALE, Arena
from tests.chaos.conftest import Note
from tests.integration.conftest import wait_for

SCHEDULES = 50
PERIOD = 0.2
FIRST_TIMEOUT = 1


@dataclass
class Person:
    """An admin client with what it was told: the revisions that it made, and how often it was refused."""

    admin: Admin
    rng: random.Random
    made: list[tuple[str, int]] = field(default_factory=list)
    refused: int = 0

    def act(self, arena: Arena) -> None:
        n = self.rng.randrange(SCHEDULES)
        action = self.rng.choices((self.change, self.pause, self.resume), (8, 1, 1))[0]
        action(arena, n)

    def change(self, arena: Arena, n: int) -> None:
        name = f"tick-{n}"
        revision = self.admin.held([name])[name].revision
        try:
            made = self.admin.replace(arena.tick(n, arena.triggers[name], timeout=revision + 1), revision)
        except ConflictError:
            self.refused += 1
        else:
            self.made.append((name, made))

    def pause(self, _arena: Arena, n: int) -> None:
        self.admin.pause(f"tick-{n}", "a test")

    def resume(self, _arena: Arena, n: int) -> None:
        self.admin.resume(f"tick-{n}", "a test")


def test_changes_while_beats_fire(arena: Arena, rng: random.Random, note: Note) -> None:
    arena.options["timeout"] = FIRST_TIMEOUT
    arena.declare(count=SCHEDULES, period=PERIOD)
    arena.start(3)
    arena.goes_on()
    people = [_person(arena, rng.random()) for _ in range(2)]
    is_over = threading.Event()
    with ThreadPoolExecutor(len(people)) as pool:
        busy = [pool.submit(_act_until, person, arena, is_over) for person in people]
        is_over.wait(4 * SCALE if SCALE <= 1 else max(60, 4 * SCALE))
        is_over.set()
    assert [one.result() for one in busy] == [None, None]
    for n in range(SCHEDULES):
        people[0].resume(arena, n)
    resumed = time.time()
    wait_for(lambda: arena.is_decided(resumed + PERIOD), 10, "fires of all that was resumed")
    verdict = arena.finish()
    _no_change_is_lost(arena, people)
    _no_fire_is_of_an_older_definition(arena)
    note(sum(len(person.made) for person in people), verdict)


def _person(arena: Arena, seed: float) -> Person:
    admin = Admin(connect(arena.direct), arena.keys, SystemClock(), "a person")
    return Person(admin, random.Random(seed))  # noqa: S311 - no secret


def _act_until(person: Person, arena: Arena, is_over: threading.Event) -> None:
    while not is_over.wait(0.005):
        person.act(arena)


def _no_change_is_lost(arena: Arena, people: list[Person]) -> None:
    """Every revision from the second on was made by one person, once; nobody made one that is not stored."""
    made = Counter(change for person in people for change in person.made)
    held = people[0].admin.held(list(arena.triggers))
    stored = {(name, revision) for name, one in held.items() for revision in range(2, one.revision + 1)}
    assert made == dict.fromkeys(stored, 1)
    assert len(stored) > SCHEDULES


def _no_fire_is_of_an_older_definition(arena: Arena) -> None:
    changed = _changes(arena)
    made_from = _timeouts(arena)
    for entry in arena.history():
        if entry.outcome == "enqueued":
            revision = made_from[entry.job_id or ""]
            later = changed[entry.schedule].get(revision + 1, entry.decided)
            assert entry.decided <= later, f"{entry} was made from revision {revision}"
            assert changed[entry.schedule].get(revision, 0) <= entry.decided


def _changes(arena: Arena) -> dict[str, dict[int, int]]:
    """When each revision of each schedule was made, by Redis' clock, ms."""
    revisions: dict[str, count[int]] = defaultdict(lambda: count(1))
    found: dict[str, dict[int, int]] = defaultdict(dict)
    rows: Any = arena.client.xrange(arena.keys.control)
    for at, row in rows:
        if row[b"action"] in {b"added", b"changed"}:
            name = row[b"schedule"].decode()
            found[name][next(revisions[name])] = int(at.split(b"-")[0])
    return found


def _timeouts(arena: Arena) -> dict[str, int]:
    pipe = arena.client.pipeline(transaction=False)
    ids = [entry.job_id or "" for entry in arena.history() if entry.outcome == "enqueued"]
    for job_id in ids:
        pipe.hget(arena.keys.rq_job(job_id), "timeout")
    return dict(zip(ids, map(int, pipe.execute()), strict=True))
