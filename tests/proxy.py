"""A TCP proxy in front of a server's unix socket, which does to its connections what networks do.

cut        a request with some bytes reaches the server; the connection is closed before its reply is passed on
precut     a request with some bytes never reaches the server; the connection is closed
reset_all  every connection is closed at once
blackhole  nothing passes, either way, and nobody is told; what was sent meanwhile arrives when it is over, as TCP
           would deliver it, even from a client that has given up since
delay      every piece of data waits so many seconds
throttle   replies pass at so many bytes a second
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path


class Proxy:
    """Forwards bytes both ways, with faults that can be switched on. `strikes` counts the connections that were cut."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = str(upstream)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"
        self.cut: bytes | None = None
        self.precut: bytes | None = None
        self.every = 1
        self.delay = 0.0
        self.throttle = 0
        self.strikes = 0
        self._seen = 0
        self._is_open = threading.Event()
        self._is_open.set()
        self._links: set[_Link] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()
        self._is_open.set()
        self.reset_all()

    def reset_all(self) -> None:
        """Close every connection."""
        for link in list(self._links):
            link.close()

    @contextlib.contextmanager
    def blackhole(self) -> Iterator[None]:
        """Within the block nothing passes."""
        self._is_open.clear()
        try:
            yield
        finally:
            self._is_open.set()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                self._join(near)

    def _join(self, near: socket.socket) -> None:
        far = socket.socket(socket.AF_UNIX)
        try:
            far.connect(self._upstream)
        except OSError:  # the server is down: so is the way to it
            near.close()
            far.close()
            return
        link = _Link(near, far)
        self._links.add(link)
        for pump in (self._requests, self._replies):
            threading.Thread(target=self._run, args=(pump, link), daemon=True).start()

    def _run(self, pump: object, link: _Link) -> None:
        with contextlib.suppress(OSError):
            pump(link)  # type: ignore[operator]
        link.close()
        self._links.discard(link)

    def _requests(self, link: _Link) -> None:
        for data in self._pieces(link.near):
            if self._strikes(self.precut, data):
                self.strikes += 1
                return
            link.is_doomed = link.is_doomed or self._strikes(self.cut, data)
            link.far.sendall(data)

    def _replies(self, link: _Link) -> None:
        for data in self._pieces(link.far):
            if link.is_doomed:
                self.strikes += 1
                return
            self._send(link.near, data)

    def _pieces(self, source: socket.socket) -> Iterator[bytes]:
        while data := source.recv(1 << 20):
            self._is_open.wait()
            time.sleep(self.delay)
            yield data

    def _send(self, sink: socket.socket, data: bytes) -> None:
        if not self.throttle:
            sink.sendall(data)
            return
        for at in range(len(data)):
            sink.sendall(data[at : at + 1])
            time.sleep(1 / self.throttle if self.throttle else 0)

    def _strikes(self, words: bytes | None, data: bytes) -> bool:
        if not words or words not in data:
            return False
        self._seen += 1
        return self._seen % self.every == 0


class _Link:
    """A connection and its continuation."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near, self.far = near, far
        self.is_doomed = False

    def close(self) -> None:
        for end in (self.near, self.far):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
