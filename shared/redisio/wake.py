"""Listening to the wake channel. A message that is lost costs at most the second until the beat looks by itself."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import redis

from shared.clock import Clock, SystemClock
from shared.redisio.connection import Client

log = logging.getLogger("rqbeat.wake")

_PATIENCE_SECONDS = 1.0


class WakeListener:
    """A daemon thread that calls `on_wake` for each message, and after each reconnection: something may have passed."""

    def __init__(self, client: Client, channel: str, on_wake: Callable[[], None], clock: Clock | None = None) -> None:
        self._client = client
        self._channel = channel
        self._on_wake = on_wake
        self._clock = clock or SystemClock()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="rqbeat-wake", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Blocks for up to a second."""
        self._stopped = True
        self._thread.join(_PATIENCE_SECONDS * 1.5)

    def _run(self) -> None:
        while not self._stopped:
            try:
                self._listen()
            except (redis.RedisError, OSError) as error:
                log.debug("the wake channel broke: %s", error)
                self._clock.sleep(_PATIENCE_SECONDS)

    def _listen(self) -> None:
        with self._client.pubsub() as channel:  # type: ignore[no-untyped-call]
            channel.subscribe(self._channel)
            while not self._stopped:
                if channel.get_message(timeout=_PATIENCE_SECONDS):
                    self._on_wake()
