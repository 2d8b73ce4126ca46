"""Child processes of `rqbeat dev`: started, listened to, and ended together, however this process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.clock import Clock
from shared.process import die_with_parent

GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Child:
    """One process and the name it is shown under."""

    name: str
    process: subprocess.Popen[str]


class Children:
    """Processes of this same program. `hear` is called, from threads, with a name and each line that it writes.

    `is_unheard` is true once nobody reads any more what `hear` prints.
    """

    def __init__(self, clock: Clock, hear: Callable[[str, str], None]) -> None:
        self.is_unheard = False
        self._clock = clock
        self._hear = hear
        self._all: list[Child] = []

    def start(self, name: str, arguments: Sequence[str]) -> None:
        """Start `rqbeat` with arguments. It dies with this process; a Ctrl-C at the terminal does not reach it."""
        me = os.getpid()
        process = subprocess.Popen(  # noqa: S603 - this very program
            [sys.executable, "-P", "-m", "scheduler.cli", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(me),  # noqa: PLW1509 - the tie must be made before anything else
        )
        child = Child(name, process)
        self._all.append(child)
        threading.Thread(target=self._listen, args=(child,), daemon=True).start()

    def ended(self) -> Child | None:
        """A child that has ended, if any."""
        return next((child for child in self._all if child.process.poll() is not None), None)

    def stop(self, is_hurried: Callable[[], bool]) -> list[str]:
        """Ask all to end, wait for them, and kill what is left after the grace or in a hurry: the names of those."""
        self._signal(signal.SIGTERM)
        ends = self._clock.monotonic() + GRACE_SECONDS
        while self._running() and self._clock.monotonic() < ends and not is_hurried():
            self._clock.sleep(0.05)
        left = [child.name for child in self._running()]
        self._signal(signal.SIGKILL)
        for child in self._all:
            child.process.wait()
        return left

    def _running(self) -> list[Child]:
        return [child for child in self._all if child.process.poll() is None]

    def _signal(self, sig: signal.Signals) -> None:
        for child in self._running():
            child.process.send_signal(sig)

    def _listen(self, child: Child) -> None:
        for line in child.process.stdout or ():
            try:
                self._hear(child.name, line)
            except BrokenPipeError:  # read on all the same: a full pipe would hold up the child's own end
                self.is_unheard = True
