"""Between a beat and the store: the only module that knows the store's ports. A change of theirs is followed here.

Each call is handed to the adversary as something to carry out; whenever the store does carry it out, be it late or
twice, the account is told.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from scheduler.memory import MemoryStore
from scheduler.ports import (
    Committed,
    DueBatch,
    DueRow,
    Lease,
    LeaseState,
    Planned,
    Released,
    Renewal,
)
from scheduler.schedule import Schedule
from shared.redisio.scripts import IN_FLIGHT
from tests.simulation.account import Account
from tests.simulation.adversary import Adversary

T = TypeVar("T")


class Wire:
    """One process' line to the store, and to its lease."""

    def __init__(self, who: str, store: MemoryStore, account: Account, adversary: Adversary) -> None:
        self._who = who
        self._store = store
        self._account = account
        self._adversary = adversary
        self.timetable = _Timetable(self)
        self.leases = _Leases(self)

    def call(self, what: str, carry_out: Callable[[MemoryStore], T]) -> T:
        """Send a call that changes nothing of what the account keeps."""
        return self._adversary.deliver(self._who, what, lambda: carry_out(self._store))

    def commit(self, lease: Lease, plans: Sequence[Planned]) -> Committed | None:
        def carry_out() -> Committed | None:
            before = self._account.length()
            reply = self._store.commit(lease, plans)
            self._account.committed(self._who, lease, plans, reply, before)
            return reply

        return self._adversary.deliver(self._who, "commit", carry_out)

    def send_on(self, lease: Lease) -> Sequence[Released]:
        def carry_out() -> Sequence[Released]:
            before = self._account.length()
            reply = self._store.release_waiting(lease)
            self._account.sent_on(lease, before)
            return reply

        return self._adversary.deliver(self._who, "release_waiting", carry_out)

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        def carry_out() -> Lease | None:
            lease = self._store.lease.claim(owner, seen)
            self._account.claimed(self._who, lease)
            return lease

        return self._adversary.deliver(self._who, "claim", carry_out)

    def renew(self, lease: Lease) -> Renewal | None:
        def carry_out() -> Renewal | None:
            renewal = self._store.lease.renew(lease)
            self._account.renewed(lease, renewal)
            return renewal

        return self._adversary.deliver(self._who, "renew", carry_out)

    def give_back(self, lease: Lease) -> None:
        def carry_out() -> None:
            self._store.lease.release(lease)
            self._account.released(lease)

        self._adversary.deliver(self._who, "release", carry_out)


class _Timetable:
    """The port `Timetable`, over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def due(self, now: int, most: int, most_late: int) -> DueBatch:
        return self._wire.call("due", lambda store: store.due(now, most, most_late))

    def coming(self, until: int, skip: int, most: int) -> Sequence[DueRow]:
        return self._wire.call("coming", lambda store: store.coming(until, skip, most))

    def load(self, ids: Sequence[str]) -> Mapping[str, tuple[int, Schedule] | Exception]:
        return self._wire.call("load", lambda store: store.load(ids))

    def commits(
        self, lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        """As over a connection, where the next batch is on its way before the reply to the one before is read."""
        replies: deque[tuple[Sequence[Planned], Committed | None]] = deque()
        for plans in batches:
            replies.append((plans, self._wire.commit(lease, plans)))
            if len(replies) == IN_FLIGHT:
                yield replies.popleft()
        yield from replies

    def release_waiting(self, lease: Lease) -> Sequence[Released]:
        return self._wire.send_on(lease)

    def set_aside(self, lease: Lease, schedule_id: str, until: int, error: str) -> None:
        self._wire.call("set_aside", lambda store: store.set_aside(lease, schedule_id, until, error))


class _Leases:
    """The port `LeaseStore`, over a wire."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def read(self) -> LeaseState:
        return self._wire.call("read", lambda store: store.lease.read())

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        return self._wire.claim(owner, seen)

    def renew(self, lease: Lease) -> Renewal | None:
        return self._wire.renew(lease)

    def release(self, lease: Lease) -> None:
        self._wire.give_back(lease)
