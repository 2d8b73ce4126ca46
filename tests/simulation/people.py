"""People at work: definitions changed, schedules paused, removed, fired by hand, under the rules of `upsert.lua`,
`control.lua` and `fire.lua`, which the store in memory leaves to its owner.
"""

from __future__ import annotations

from dataclasses import replace

from scheduler.memory import MemoryStore
from scheduler.memoryfiring import Entry
from scheduler.planner import Against, Fire, left_by_change, missed_while_paused, single_fire
from scheduler.ports import LedgerEntry
from scheduler.schedule import Schedule
from scheduler.triggers import to_data
from tests.simulation.account import Account
from tests.simulation.menu import any_schedule
from tests.simulation.world import Hand, World


class People:
    """Whoever changes schedules. Each change is one step, by the store's clock."""

    def __init__(self, world: World, store: MemoryStore, clock: Hand, account: Account, names: list[str]) -> None:
        self._world = world
        self._store = store
        self._clock = clock
        self._account = account
        self._names = names
        self.requests = 0

    def act(self) -> None:
        """Do something to some schedule: mostly keep it going, now and then take it away."""
        name = self._world.rng.choice(self._names)
        entry = self._store.entries.get(name)
        if entry is None:
            return self.add(name)
        what = self._world.rng.choices(("redefine", "retrigger", "pause", "resume", "cancel", "remove", "fire"),
                                       (2, 3, 2, 5, 0.5, 1, 2))[0]  # fmt: skip
        if entry.status in {"completed", "cancelled"} and self._world.rng.random() < 0.8:
            what = "remove"
        getattr(self, what)(entry)
        self._world.say("people", what, name)
        return None

    def add(self, name: str) -> None:
        """Add a schedule. Its revision comes from the clock: none that a beat remembers of an earlier one fits."""
        entry = self._store.add(any_schedule(self._world.rng, name, self._clock.now_ms()))
        entry.revision = self._clock.now_ms()
        self._account.added(entry)
        self._world.say("people", "add", f"{name}: {entry.schedule.trigger.describe()}")

    def redefine(self, entry: Entry) -> None:
        """Change the policies and leave the trigger."""
        fresh = any_schedule(self._world.rng, entry.schedule.id, self._clock.now_ms())
        self.upsert(entry, replace(fresh, trigger=entry.schedule.trigger))

    def retrigger(self, entry: Entry) -> None:
        self.upsert(entry, any_schedule(self._world.rng, entry.schedule.id, self._clock.now_ms()))

    def upsert(self, entry: Entry, schedule: Schedule) -> None:
        """Replace a definition. A changed trigger starts from now; what the old one had due is written as missed."""
        is_changed = to_data(schedule.trigger) != to_data(entry.schedule.trigger)
        until = self._leave_old(entry) if is_changed else 0
        entry.schedule, entry.revision, entry.error = schedule, entry.revision + 1, ""
        if is_changed:
            entry.cursor = max(entry.cursor, self._clock.now_ms())
            self._account.retriggered(entry, until)
        self._account.redefined(entry)
        self._put(entry, is_changed=is_changed)

    def _leave_old(self, entry: Entry) -> int:
        """Settle what the old trigger leaves; how far it answers for what was due."""
        if entry.status != "active":
            return entry.cursor
        if left := left_by_change(entry.schedule, entry.cursor, self._clock.now_ms()):
            self._store.firing.record_range(entry, left)
        return max(entry.cursor, self._clock.now_ms())

    def _put(self, entry: Entry, *, is_changed: bool) -> None:
        following = entry.schedule.trigger.next_ms(entry.cursor)
        if is_changed and entry.status == "completed" and following is not None:
            entry.status = "active"
        if entry.status == "active":
            self._store.index(entry, following)

    def pause(self, entry: Entry) -> None:
        if entry.status == "active":
            entry.status, entry.next = "paused", None
            self._account.at_rest.add(entry.schedule.id)

    def resume(self, entry: Entry) -> None:
        if entry.status != "paused":
            return
        entry.cursor, missed = missed_while_paused(entry.schedule, entry.cursor, self._clock.now_ms())
        entry.status, entry.failures = "active", 0
        if missed:
            self._store.firing.record_range(entry, missed)
        self._store.index(entry, entry.schedule.trigger.next_ms(entry.cursor))
        self._account.at_rest.discard(entry.schedule.id)

    def cancel(self, entry: Entry) -> None:
        self._drop_waiting(entry)
        entry.status, entry.next = "cancelled", None
        self._account.at_rest.add(entry.schedule.id)

    def remove(self, entry: Entry) -> None:
        self._drop_waiting(entry)
        self._account.removed(entry)
        del self._store.entries[entry.schedule.id]

    def _drop_waiting(self, entry: Entry) -> None:
        if fire := entry.waiting:
            self._store.firing.record_range(entry, _given_up(fire))
            entry.waiting = None

    def fire(self, entry: Entry) -> None:
        """Enqueue a job by hand, beside the cursor."""
        self.requests += 1
        now = self._clock.now_ms()
        fire = single_fire(entry.schedule, now, now, "manual", f"r{self.requests}")
        firing, queue = self._store.firing, entry.schedule.options.queue
        firing.jobs[fire.job_id] = "queued"
        firing.queues.setdefault(queue, []).insert(0, fire.job_id)
        if entry.schedule.policy.instances:
            entry.outstanding[fire.job_id] = fire.nominal
        firing.ledger.append(_by_hand(fire, entry.schedule, now))
        self._account.enqueued_by_hand(entry, fire.job_id)


def _given_up(fire: Fire) -> Against:
    return Against(
        nominal=fire.nominal,
        until=fire.nominal,
        count=1,
        due=fire.due,
        kind=fire.kind,
        outcome="missed",
        reason="error",
    )


def _by_hand(fire: Fire, schedule: Schedule, now: int) -> LedgerEntry:
    return LedgerEntry(
        schedule=schedule.id,
        nominal=fire.nominal,
        until=fire.nominal,
        count=1,
        decided=now,
        outcome="enqueued",
        reason="",
        kind="manual",
        job_id=fire.job_id,
        due=now,
    )
