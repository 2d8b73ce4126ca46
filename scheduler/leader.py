"""Which beat works now: a lease, and how far it may be trusted.

**The lease** lies in Redis without a TTL: an owner (random for each process start, so that two processes on one host
never mistake each other), a term that only rises, and a counter that the leader moves on each second. No clock of
Redis' is part of it, so a stepped server clock can neither end a lease nor keep a dead leader's alive.

**Taking over.** A standby looks at the counter each second. When it has stood still for `LEASE_SECONDS` on the
standby's own monotonic clock, the standby claims the lease by compare-and-set, under the next term. A lease that was
given back (no owner) is claimed at once.

**Trust ends before the lease does.** A leader trusts itself for two thirds of the lease, counted from the *start* of
its last successful renewal: however slowly the reply came, no standby can have taken over within that time. After that
it stops committing until a renewal succeeds.

**State lost.** A term only rises. A process that sees one lower than it has seen before knows that Redis came back
without its newest data, or without any.

**The fence.** Trust is only courtesy. What makes a stale leader harmless is that the commit compares owner and term
with the stored ones, and that each plan compares the cursor: a leader that slept through its own succession writes
nothing, and even two that both believed would not fire twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.ports import Lease, LeaseState, LeaseStore, Renewal
from shared.clock import Clock

LEASE_SECONDS = 3.0
RENEW_SECONDS = 1.0
SOON_SECONDS = 0.1
TRUST_SECONDS = LEASE_SECONDS * 2 / 3


@dataclass(slots=True)
class _Watch:
    """A lease of another's, and since when (monotonic) its counter stands there."""

    state: LeaseState
    since: float


class Leader:
    """One process' part in the election. Not for several threads."""

    def __init__(
        self,
        store: LeaseStore,
        owner: str,
        clock: Clock,
        *,
        may_lead: Callable[[int], bool] = lambda _now: True,
        on_state_lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`may_lead` is asked, with the store's clock in ms, whenever this process would claim or renew the lease.

        `on_state_lost` is called when the store turns out to have lost its state, before the lease is claimed anew.
        """
        self._store = store
        self._owner = owner
        self._clock = clock
        self._may_lead = may_lead
        self._on_state_lost = on_state_lost
        self._highest_term = 0
        self._lease: Lease | None = None
        self._renewed = self._looked = float("-inf")
        self._watch: _Watch | None = None

    @property
    def lease(self) -> Lease | None:
        """The lease, while it is held and may be trusted."""
        return self._lease if self._clock.monotonic() - self._renewed < TRUST_SECONDS else None

    def seconds_left(self) -> float:
        """Until the lease is to be renewed or looked at again; 0 or less: now."""
        return self._looked + RENEW_SECONDS - self._clock.monotonic()

    def look_soon(self) -> None:
        """Something was said on the wake channel, perhaps that the lease is free: a standby does not wait its second.

        It looks ten times a second at most, however much is said.
        """
        if not self._lease:
            self._looked = min(self._looked, self._clock.monotonic() + SOON_SECONDS - RENEW_SECONDS)

    def turn(self) -> Renewal | None:
        """Renew the lease, or watch another's and take over when it is due. One round trip, two when claiming.

        Returns the renewal of a lease that was held before. Raises StoreError.
        """
        started = self._looked = self._clock.monotonic()
        if self._lease:
            renewal = self._store.renew(self._lease)
            if renewal and self._may_lead(renewal.now):
                self._renewed = started
                return renewal
            if renewal:
                self.resign()
                return None
            self.lost()
        if self._is_vacant(started):
            self._stand(started)
        return None

    def lost(self) -> None:
        """Somebody else leads: told by a renewal or by a fenced commit."""
        self._lease = None
        self._watch = None

    def resign(self) -> None:
        """Give the lease back, so that a standby takes over at once. Raises StoreError."""
        lease, self._lease = self._lease, None
        if lease:
            self._store.release(lease)

    def _is_vacant(self, now: float) -> bool:
        """Whether the lease may be taken, by a look that began at `now`.

        A watch begins when the reply is there: one that began before a slow look would end before its time.
        """
        state = self._store.read()
        self._notice_term(state)
        if self._watch is None or self._watch.state != state:
            self._watch = _Watch(state, self._clock.monotonic())
        has_stood_still = now - self._watch.since >= LEASE_SECONDS
        return self._may_lead(state.now) and (not state.owner or has_stood_still)

    def _notice_term(self, state: LeaseState) -> None:
        term = int(state.term or 0)
        is_lost, self._highest_term = term < self._highest_term, term
        if is_lost:
            self._on_state_lost()

    def _stand(self, started: float) -> None:
        if self._watch:
            self._lease = self._store.claim(self._owner, self._watch.state)
            self._renewed = started
            self._watch = None
        if self._lease:
            self._highest_term = int(self._lease.term)
