"""The lease: who leads, for how long it is believed, and how it changes hands, without any real time."""

from __future__ import annotations

from dataclasses import dataclass, field

from scheduler.leader import LEASE_SECONDS, TRUST_SECONDS, Leader
from scheduler.ports import Lease, LeaseState, Renewal
from scheduler.testing import ManualClock


@dataclass
class MemoryLease:
    """A lease store; `slow` makes each renewal, `slow_read` each look take so long."""

    clock: ManualClock
    owner: str = ""
    term: int = 0
    counter: int = 0
    slow: float = 0
    slow_read: float = 0
    claims: list[str] = field(default_factory=list)

    def read(self) -> LeaseState:
        self.clock.advance(self.slow_read)
        return LeaseState(owner=self.owner, term=str(self.term), counter=str(self.counter), now=self.clock.now_ms())

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        if seen != self.read() and self.owner:
            return None
        self.owner, self.term, self.counter = owner, self.term + 1, 0
        self.claims.append(owner)
        return Lease(owner=owner, term=str(self.term))

    def renew(self, lease: Lease) -> Renewal | None:
        self.clock.advance(self.slow)
        if (lease.owner, lease.term) != (self.owner, str(self.term)):
            return None
        self.counter += 1
        return Renewal(now=self.clock.now_ms(), head=None)

    def release(self, lease: Lease) -> None:
        if (lease.owner, lease.term) == (self.owner, str(self.term)):
            self.owner = ""


def two_beats() -> tuple[ManualClock, MemoryLease, Leader, Leader]:
    clock = ManualClock()
    store = MemoryLease(clock)
    return clock, store, Leader(store, "a", clock), Leader(store, "b", clock)


def test_the_first_one_leads_at_once() -> None:
    _, _, a, b = two_beats()
    a.turn()
    b.turn()
    assert a.lease
    assert b.lease is None


def test_a_standby_waits_while_the_counter_moves() -> None:
    clock, store, a, b = two_beats()
    for _ in range(20):
        a.turn()
        b.turn()
        clock.advance(1)
    assert store.claims == ["a"]


def test_a_standby_takes_over_when_the_counter_stood_still_for_the_lease() -> None:
    clock, store, a, b = two_beats()
    a.turn()
    waited = 0.0
    while not b.lease:
        b.turn()
        clock.advance(0.5)
        waited += 0.5
    assert LEASE_SECONDS <= waited <= LEASE_SECONDS + 1
    assert store.term == 2


def test_a_leader_stops_trusting_itself_before_a_standby_may_take_over() -> None:
    clock, _, a, _ = two_beats()
    a.turn()
    clock.advance(TRUST_SECONDS)
    assert a.lease is None
    assert TRUST_SECONDS < LEASE_SECONDS


def test_a_slow_renewal_does_not_stretch_the_trust() -> None:
    clock, store, a, _ = two_beats()
    a.turn()
    store.slow = 1.9
    a.turn()
    assert a.lease
    clock.advance(0.2)
    assert a.lease is None


def test_a_slow_look_does_not_shorten_the_watch() -> None:
    """A standby that stood still in its look has not watched the lease meanwhile: it takes none that is renewed."""
    clock, store, a, b = two_beats()
    a.turn()
    clock.advance(1)
    a.turn()
    store.slow_read = LEASE_SECONDS
    b.turn()
    store.slow_read = 0
    b.turn()
    assert b.lease is None
    assert store.claims == ["a"]


def test_a_frozen_leader_finds_itself_succeeded() -> None:
    clock, store, a, b = two_beats()
    a.turn()
    b.turn()
    clock.advance(60)
    b.turn()
    assert b.lease
    a.turn()
    assert a.lease is None
    assert store.claims == ["a", "b"]


def test_a_released_lease_is_taken_at_once() -> None:
    _, _, a, b = two_beats()
    a.turn()
    b.turn()
    a.resign()
    b.turn()
    assert b.lease


def test_the_clock_of_the_store_plays_no_part() -> None:
    """A step of the wall clock neither ends a lease nor keeps a dead leader's."""
    clock, store, a, b = two_beats()
    a.turn()
    b.turn()
    clock.step(-3600)
    clock.advance(1)
    a.turn()
    b.turn()
    assert store.claims == ["a"]
    clock.advance(LEASE_SECONDS)
    b.turn()
    assert store.claims == ["a", "b"]


def test_a_term_that_fell_tells_that_the_store_lost_its_state() -> None:
    clock = ManualClock()
    store = MemoryLease(clock)
    lost: list[str] = []
    leaders = [Leader(store, name, clock, on_state_lost=lambda name=name: lost.append(name)) for name in "ab"]
    for leader in leaders:
        leader.turn()
    store.owner, store.term, store.counter = "", 0, 0
    clock.advance(1)
    for leader in leaders:
        leader.turn()
    assert lost == ["a"]
    assert store.term == 1


def test_an_empty_store_at_the_start_has_lost_nothing() -> None:
    clock = ManualClock()
    lost: list[str] = []
    leader = Leader(MemoryLease(clock), "a", clock, on_state_lost=lambda: lost.append("a"))
    for _ in range(3):
        leader.turn()
    assert lost == []


def test_a_beat_whose_clock_is_wrong_does_not_stand() -> None:
    clock = ManualClock()
    store = MemoryLease(clock)
    a = Leader(store, "a", clock, may_lead=lambda _now: False)
    a.turn()
    assert a.lease is None
    assert store.claims == []


def test_a_leader_whose_clock_goes_wrong_steps_down_at_once() -> None:
    clock = ManualClock()
    store = MemoryLease(clock)
    trusted = [True]
    a = Leader(store, "a", clock, may_lead=lambda _now: trusted[0])
    a.turn()
    trusted[0] = False
    a.turn()
    assert a.lease is None
    assert store.owner == ""


def test_a_standby_that_is_woken_looks_within_a_tenth_of_a_second() -> None:
    """A lease that is given back is taken at once, not a second later; a leader keeps to its second."""
    clock, _, a, b = two_beats()
    a.turn()
    b.turn()
    a.look_soon()
    b.look_soon()
    assert (round(a.seconds_left(), 3), round(b.seconds_left(), 3)) == (1.0, 0.1)
    clock.advance(0.05)
    b.look_soon()
    assert round(b.seconds_left(), 3) == 0.05
