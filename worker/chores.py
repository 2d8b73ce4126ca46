"""What a worker does beside jobs: it promotes due retries when nobody else did, says that it lives, follows Sentinel.

Called at every turn of the worker's own loop, idle or running, so that a worker that is stuck falls silent. No thread:
the worker forks, and a fork keeps locks that other threads held.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from shared.clock import Clock
from shared.errors import StoreError
from shared.redisio.dispatch import Promoter
from shared.redisio.presence import Presence
from shared.redisio.primary import PrimaryWatch

PROMOTE_SECONDS = 1.0
PRESENCE_SECONDS = 5.0

log = logging.getLogger("rqbeat.worker")


class Rhythm:
    """Tells when something is due again, on the monotonic clock."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._next = 0.0

    def is_due(self) -> bool:
        """Whether the time has come; if so, the next time is set."""
        now = self._clock.monotonic()
        if now < self._next:
            return False
        self._next = now + self._seconds
        return True


class Chores:
    """One worker's. Raises StoreError from `turn`, never from `leave`."""

    def __init__(
        self, promoter: Promoter, presence: Presence, queue: str, clock: Clock, watches: Sequence[PrimaryWatch] = ()
    ) -> None:
        self._promoter = promoter
        self._presence = presence
        self._queue = queue
        self._watches = watches
        self._promotion = Rhythm(clock, PROMOTE_SECONDS)
        self._saying = Rhythm(clock, PRESENCE_SECONDS)
        self._said = ""

    def turn(self, state: str) -> None:
        """Do what is due: at most three round trips, and as many to Sentinel as there are clients."""
        for watch in self._watches:
            watch.turn()
        if self._promotion.is_due():
            self._promoter(polite=True)
        self.say(state)

    def say(self, state: str) -> None:
        """Say that this worker lives, if that is due or its state has changed."""
        if self._saying.is_due() or state != self._said:
            self._presence.say({"queue": self._queue, "state": state})
            self._said = state

    def leave(self) -> None:
        """Say goodbye."""
        try:
            self._presence.leave()
        except StoreError as error:
            log.debug("no goodbye: %s", error)
