"""The beat: one loop that asks whether it leads, decides what is due, and waits until the next due time or a change.

Everything that decides is elsewhere and pure; the loop has the side effects, in one order: renew the lease, decide what
is due, plan what comes next, do chores, wait. Nothing is written but through the commit, so the loop may be cut off at
any instruction: what was not committed is planned again, by this beat or by another.

Redis in trouble ends no beat: it backs off, says so once, and goes on by itself.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Sequence

from scheduler.bell import Bell
from scheduler.failpoint import Point, nothing
from scheduler.leader import RENEW_SECONDS, Leader
from scheduler.pacing import BackOff
from scheduler.ports import Lease, Timetable
from scheduler.ticker import Observer, Ticker
from shared.clock import Clock
from shared.errors import StoreError

log = logging.getLogger("rqbeat.beat")


class Beat:
    """One beat of possibly several on one Redis. `run` blocks; `stop` may be called from anywhere."""

    def __init__(
        self,
        *,
        timetable: Timetable,
        leader: Leader,
        clock: Clock,
        bell: Bell,
        observer: Observer,
        chores: Sequence[Callable[[], object]] = (),
        on_trouble: Callable[[], object] = lambda: None,
        reached: Callable[[Point], None] = nothing,
    ) -> None:
        """`chores` are run once a second by the beat that leads, `on_trouble` before Redis is asked again.

        After a failover, a connection that still works may lead to a server that takes no writes any more. `reached` is
        told the points that the loop passes.
        """
        self._leader = leader
        self._bell = bell
        self._observer = observer
        self._chores = deque(chores)
        self._chores_left = 0
        self._on_trouble = on_trouble
        self._reached = reached
        self._ticker = Ticker(timetable, clock, observer, self._may_go_on, reached)
        self._back_off = BackOff()
        self._is_stopping = False

    def stop(self) -> None:
        """Ask the loop to end after the commits in hand. Takes no lock: a signal handler may call it."""
        self._is_stopping = True
        self._bell.ring()

    def run(self) -> None:
        """Decide fires until stopped; then give the lease back."""
        while not self._is_stopping:
            seconds = self._guarded_turn()
            self._reached("waiting")
            if self._bell.wait(seconds):
                self._ticker.look()
                self._leader.look_soon()
        self._resign()

    def once(self) -> bool:
        """Decide what is due now, and give the lease back. False when another beat leads. Raises StoreError."""
        self.turn()
        is_leader = self._leader.lease is not None
        while self._leader.lease and self._ticker.is_due() and not self._is_stopping:
            self.turn()
        self._resign()
        return is_leader

    def turn(self) -> float:
        """One turn: lease, what is due, chores. Returns the seconds to wait. Raises StoreError."""
        if self._leader.seconds_left() <= 0:
            self._look_at_lease()
        lease = self._leader.lease
        if lease is None:
            self._ticker.forget()
            return self._leader.seconds_left()
        self._decide(lease)
        if self._chores_left:
            self._do_next_chore()
        return 0.0 if self._chores_left else max(0.0, min(self._leader.seconds_left(), self._seconds_to_next()))

    def _decide(self, lease: Lease) -> None:
        if self._ticker.is_due() and not self._ticker.tick(lease):
            log.warning("fenced: another beat leads now; nothing was written")
            self._leader.lost()
            return
        if self._ticker.has_waiting:
            self._ticker.release(lease)
        if not self._ticker.is_due():
            self._ticker.plan_ahead()

    def _seconds_to_next(self) -> float:
        seconds = self._ticker.seconds_to_next()
        return RENEW_SECONDS if seconds is None else seconds

    def _may_go_on(self) -> bool:
        """Whether there is time for another batch before the lease is to be renewed."""
        return self._leader.seconds_left() > 0 and not self._is_stopping

    def _guarded_turn(self) -> float:
        """A turn that survives what Redis may do."""
        try:
            seconds = self.turn()
        except StoreError as error:
            self._ticker.forget()
            self._on_trouble()
            self._observer.state({"state": "waiting", "error": str(error)})
            return self._back_off.next()
        self._back_off.reset()
        return seconds

    def _look_at_lease(self) -> None:
        self._reached("before-renew")
        renewal = self._leader.turn()
        self._reached("after-renew")
        if renewal:
            self._ticker.told(renewal)
        self._observer.state({"state": "leader" if self._leader.lease else "standby", "error": ""})
        self._chores_left = len(self._chores)

    def _do_next_chore(self) -> None:
        """One of those that are left in this second: fires come between, and so does the lease.

        Never all at any price: on a slow line the chores alone would outlast the lease. The next second goes on with
        those that were not reached.
        """
        self._chores_left -= 1
        self._chores.rotate(-1)
        self._do_chore(self._chores[-1])

    def _do_chore(self, chore: Callable[[], object]) -> None:
        """A chore that fails for any reason but Redis' must not stop the fires."""
        try:
            chore()
        except StoreError:
            raise
        except Exception:
            log.exception("a chore failed")

    def _resign(self) -> None:
        try:
            self._leader.resign()
        except StoreError as error:
            log.warning("the lease could not be given back (%s): a standby waits for it to stand still", error)
