"""A TCP proxy in front of a server's unix socket, with a fault that can be switched on: replies that never arrive."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class Proxy:
    """Forwards bytes both ways. While `cut` holds some bytes, a request with them reaches the server, and the
    connection is closed before its reply is passed on. `cuts` counts them."""

    def __init__(self, upstream: Path) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.cut: bytes | None = None
        self.cuts = 0
        self.every = 1
        self._seen = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(str(self._upstream))
                doomed = threading.Event()
                threading.Thread(target=self._requests, args=(near, far, doomed), daemon=True).start()
                threading.Thread(target=self._replies, args=(far, near, doomed), daemon=True).start()

    def _requests(self, near: socket.socket, far: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError), near, far:
            while data := near.recv(1 << 20):
                if self.cut and self.cut in data:
                    self._seen += 1
                    if self._seen % self.every == 0:
                        doomed.set()
                far.sendall(data)

    def _replies(self, far: socket.socket, near: socket.socket, doomed: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(1 << 20):
                if doomed.is_set():
                    self.cuts += 1
                    near.shutdown(socket.SHUT_RDWR)
                    return
                near.sendall(data)
