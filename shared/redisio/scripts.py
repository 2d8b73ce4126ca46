"""Lua scripts by name: read from `lua/`, behind the prelude, sent by hash and loaded again when Redis forgot them.

What a script is handed beside keys is packed as msgpack without the newer string types, which Redis' `cmsgpack` can't
read. A script that writes is idempotent, so its caller may send it again when the reply was lost.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any, cast

import msgpack
import redis

from shared.redisio.connection import store_errors

_PARTS = {
    "commit": ("firing",),
    "release": ("firing",),
    "due": ("rows",),
    "coming": ("rows",),
    "run_end": ("ended",),
    "run_next": ("ended",),
}


Call = tuple[Sequence[str], Sequence[str | bytes | int]]
"""The keys and the arguments of one call."""

IN_FLIGHT = 2


class Script:
    """One script on one connection."""

    def __init__(self, client: redis.Redis, name: str) -> None:
        self._client = client
        self._text = source(name)
        self._hash = hashlib.sha1(self._text.encode()).hexdigest()  # noqa: S324 - Redis' choice
        self._is_known = False

    def __call__(self, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
        """Run it; one round trip, two when Redis does not know it. Raises StoreError.

        Then the text is sent, not loaded to be called: Redis may forget it again in between.
        """
        with store_errors():
            try:
                return self._client.evalsha(self._hash, len(keys), *keys, *args)
            except redis.exceptions.NoScriptError:
                return self._client.eval(self._text, len(keys), *keys, *args)

    def each(self, calls: Iterable[Call], in_flight: int = IN_FLIGHT) -> Iterator[Any]:
        """Run it for each of these, and yield the replies in their order; raises StoreError.

        The next call is made while Redis works on up to `in_flight` before it, so that neither waits for the other. One
        that Redis did not know the script for is sent again, and may then run after the next one.
        """
        with store_errors(), _connection(self._client) as connection:
            sent: deque[Call] = deque()
            for call in calls:
                sent.append(call)
                keys, args = call
                connection.send_command(*self._command(), len(keys), *keys, *args)
                if len(sent) == in_flight:
                    yield self._reply(connection, sent.popleft())
            while sent:
                yield self._reply(connection, sent.popleft())

    def _command(self) -> tuple[str, str]:
        """By its hash once Redis has run it: with an unknown one, all that is in flight would be sent twice."""
        return ("EVALSHA", self._hash) if self._is_known else ("EVAL", self._text)

    def _reply(self, connection: Any, call: Call) -> Any:
        try:
            reply = connection.read_response()
        except redis.exceptions.NoScriptError:
            self._is_known = False
            return self(*call)
        self._is_known = True
        return reply


@contextmanager
def _connection(client: redis.Redis) -> Iterator[Any]:
    """A connection for this block alone. Left in the middle, it is closed: replies may be on their way."""
    pool = client.connection_pool
    connection: Any = pool.get_connection()
    try:
        yield connection
    except BaseException:
        connection.disconnect()
        raise
    finally:
        pool.release(connection)


@cache
def source(name: str) -> str:
    """The text of a script with the shared parts that it needs in front."""
    return "".join(_read(part) for part in ("prelude", *_PARTS.get(name, ()), name))


def pack(value: object) -> bytes:
    """Arguments as a script reads them with `cmsgpack.unpack`; None becomes nil."""
    return cast("bytes", msgpack.packb(value, use_bin_type=False))


def unpack(reply: bytes) -> Any:
    """What a script packed with `cmsgpack.pack`; its texts come as bytes. Quicker to read than a nested reply."""
    return msgpack.unpackb(reply, raw=True)


def _read(name: str) -> str:
    return resources.files("shared.redisio").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")
