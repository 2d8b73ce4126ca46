"""What a process says of itself while it lives, and what others read of it. Silence means that it is gone or stuck."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from typing import Any, cast

from shared.clock import Clock, SystemClock
from shared.keys import Keys
from shared.redisio.connection import Client, shown, store_errors

PRESENCE_SECONDS = 30


class Presence:
    """One process' own record. `role` is beat or worker."""

    def __init__(self, client: Client, keys: Keys, role: str, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._host, self._pid = socket.gethostname(), os.getpid()
        self._process = f"{self._host}:{self._pid}"
        self._key, self._index = keys.presence(role, self._process), keys.presences(role)

    def say(self, facts: Mapping[str, str | int]) -> None:
        """Write it down for the next 30 s. One round trip; raises StoreError."""
        now = self._clock.now_ms()
        mapping: dict[Any, Any] = {"host": self._host, "pid": self._pid, "at": now, **facts}
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.hset(self._key, mapping=mapping)
            pipe.expire(self._key, PRESENCE_SECONDS)
            pipe.zadd(self._index, {self._process: now // 1000 + PRESENCE_SECONDS})
            pipe.zremrangebyscore(self._index, 0, now // 1000)
            pipe.execute()

    def leave(self) -> None:
        """Take it back: this process ends on purpose."""
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.delete(self._key)
            pipe.zrem(self._index, self._process)
            pipe.execute()


def present(client: Client, keys: Keys, role: str) -> list[dict[str, str]]:
    """The records of all processes of a role that spoke lately. Two round trips; raises StoreError.

    One that can't be read has its host, and why as `error`.
    """
    with store_errors():
        processes = cast("list[bytes]", client.zrange(keys.presences(role), 0, -1))
        pipe = client.pipeline(transaction=False)
        for process in processes:
            pipe.hgetall(keys.presence(role, shown(process)))
        rows = pipe.execute(raise_on_error=False)
    return [_record(process, row) for process, row in zip(processes, rows, strict=True) if row]


def _record(process: bytes, row: Any) -> dict[str, str]:
    if isinstance(row, Exception):
        return {"host": shown(process).rpartition(":")[0], "error": f"its record can't be read: {row}"}
    return {shown(name): shown(value) for name, value in row.items()}
