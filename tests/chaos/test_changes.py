"""Two people change fifty schedules while three beats fire them.

No change is lost silently: each either gets the next revision or is refused. No job is made from a definition older
than a change that came before its decision: the job's time-out says which definition it is from, the first being 1.
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

import pytest

from scheduler.admin import Admin
from scheduler.triggers import IntervalTrigger
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
    first: dict[str, int]
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
            version = revision + 1 - self.first[name] + FIRST_TIMEOUT
            made = self.admin.replace(arena.tick(n, arena.triggers[name], timeout=version), revision)
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
    wait_for(lambda: arena.said("schedules declared") == 3, 15, "the declarations, which a late beat restores")
    arena.goes_on()
    people = [_person(arena, rng.random()) for _ in range(2)]
    is_over = threading.Event()
    with ThreadPoolExecutor(len(people)) as pool:
        busy = [pool.submit(_act_until, person, arena, is_over) for person in people]
        is_over.wait(4 if SCALE <= 1 else 60)
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
    first = {name: held.revision for name, held in admin.held(list(arena.triggers)).items()}
    return Person(admin, random.Random(seed), first)  # noqa: S311 - no secret


def _act_until(person: Person, arena: Arena, is_over: threading.Event) -> None:
    while not is_over.wait(0.02):  # in a minute no more changes than the control log keeps
        person.act(arena)


def _no_change_is_lost(arena: Arena, people: list[Person]) -> None:
    """Every revision after the first was made by one person, once; nobody made one that is not stored."""
    made = Counter(change for person in people for change in person.made)
    held = people[0].admin.held(list(arena.triggers))
    first = people[0].first
    stored = {(name, made) for name, one in held.items() for made in range(first[name] + 1, one.revision + 1)}
    assert made == dict.fromkeys(stored, 1)
    assert len(stored) > SCHEDULES


def _no_fire_is_of_an_older_definition(arena: Arena) -> None:
    changed = _changes(arena)
    made_from = _timeouts(arena)
    for entry in arena.history():
        if entry.outcome == "enqueued":
            version = made_from[entry.job_id or ""]
            later = changed[entry.schedule].get(version + 1, entry.decided)
            assert changed[entry.schedule][version] <= entry.decided <= later, f"{entry} is of definition {version}"


def _changes(arena: Arena) -> dict[str, dict[int, int]]:
    """When each definition of each schedule was stored, by Redis' clock, ms."""
    versions: dict[str, count[int]] = defaultdict(lambda: count(FIRST_TIMEOUT))
    found: dict[str, dict[int, int]] = defaultdict(dict)
    rows: Any = arena.client.xrange(arena.keys.control)
    for at, row in rows:
        if row[b"action"] in {b"added", b"changed"}:
            name = row[b"schedule"].decode()
            found[name][next(versions[name])] = int(at.split(b"-")[0])
    return found


def _timeouts(arena: Arena) -> dict[str, int]:
    pipe = arena.client.pipeline(transaction=False)
    ids = [entry.job_id or "" for entry in arena.history() if entry.outcome == "enqueued"]
    for job_id in ids:
        pipe.hget(arena.keys.rq_job(job_id), "timeout")
    return dict(zip(ids, map(int, pipe.execute()), strict=True))


def test_a_schedule_removed_and_added_anew_fires_by_its_new_rule(arena: Arena) -> None:
    """A beat that remembers the old definition has to notice, although the new one is a first revision too."""
    arena.declare(count=1)
    arena.start()
    arena.goes_on()
    person = _person(arena, 0)
    person.admin.remove("tick-0")
    person.admin.upsert([arena.tick(0, IntervalTrigger(0.5))])
    since = arena.born()
    wait_for(lambda: len(_after(arena, since)) >= 3, 10, "fires by the new rule")
    assert [nominal % 500 for nominal in _after(arena, since)[:3]] == [0, 0, 0]


def test_a_change_of_what_was_removed_and_added_anew_is_refused(arena: Arena) -> None:
    arena.declare(count=1)
    one, two = _person(arena, 0), _person(arena, 1)
    read = one.admin.held(["tick-0"])["tick-0"].revision
    two.admin.remove("tick-0")
    two.admin.upsert([arena.tick(0, IntervalTrigger(0.5))])
    with pytest.raises(ConflictError):
        one.admin.replace(arena.tick(0, IntervalTrigger(7)), read)


def _after(arena: Arena, since: int) -> list[int]:
    return sorted(entry.nominal for entry in arena.history() if entry.nominal > since)
