"""Following the primary that Sentinel names.

A primary that was replaced goes on answering for some ten seconds, until Sentinel demotes it, and what it acknowledges
meanwhile is lost with it. Its connections do not tell; Sentinel does.
"""

from __future__ import annotations

import logging
import threading

import redis
from redis.sentinel import SentinelConnectionPool

from shared.clock import Clock
from shared.redisio.connection import Client

log = logging.getLogger("rqbeat.primary")

LOOK_SECONDS = 1.0
SILENCE_SHARE = 5


class PrimaryWatch:
    """Asks Sentinel each second. The client's next call goes to the primary that it named last.

    By a daemon thread, or by `turn` in the loop of a process that forks. A call in hand is not broken off. For a client
    that knows its server without Sentinel nothing is done.
    """

    def __init__(self, client: Client, clock: Clock) -> None:
        pool = client.connection_pool
        self._pool = pool if isinstance(pool, SentinelConnectionPool) else None
        self._clock = clock
        self._stopped = False
        self._next = 0.0

    def start(self) -> None:
        if self._pool:
            threading.Thread(target=self._run, args=(self._pool,), name="rqbeat-primary", daemon=True).start()

    def stop(self) -> None:
        """End the thread, within a second. Does not block."""
        self._stopped = True

    def turn(self) -> None:
        """Ask, if a second has passed; more, where asking took long. Blocks while Sentinel is silent, never raises."""
        began = self._clock.monotonic()
        if self._pool and began >= self._next:
            self._look(self._pool)
            ended = self._clock.monotonic()
            self._next = ended + max(LOOK_SECONDS, SILENCE_SHARE * (ended - began))

    def _run(self, pool: SentinelConnectionPool) -> None:
        while not self._stopped:
            self._look(pool)
            self._clock.sleep(LOOK_SECONDS)

    def _look(self, pool: SentinelConnectionPool) -> None:
        try:
            self._follow(pool)
        except (redis.RedisError, OSError) as error:
            log.debug("Sentinel names no primary: %s", error)

    def _follow(self, pool: SentinelConnectionPool) -> None:
        """Asking is enough: the pool parts with connections to any other server as they come back to it."""
        before = pool.master_address
        now = pool.get_master_address()  # type: ignore[no-untyped-call]
        if before and now != before:
            log.warning("Sentinel names another primary, %s:%s: following", *now)
