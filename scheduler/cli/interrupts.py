"""Ctrl-C, SIGTERM and SIGHUP for a command that takes a while to end: the first ends it, a second one hurries it."""

from __future__ import annotations

import math
import signal
from types import FrameType, TracebackType
from typing import Any

from shared.clock import Clock

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ECHO_SECONDS = 0.5
"""One Ctrl-C may arrive twice, by way of a parent or with a terminal that closes."""


class Interrupts:
    """Within the block the first signal raises KeyboardInterrupt; from then on they only set `is_hurried`.

    After an interrupted block they are ignored: the process is on its way out, and its exit code is known.
    """

    def __init__(self, clock: Clock) -> None:
        self.is_hurried = False
        self._clock = clock
        self._is_ending = False
        self._first = -math.inf
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        self._before = {name: signal.signal(name, self._handle) for name in SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name, handler in self._before.items():
            signal.signal(name, signal.SIG_IGN if self._is_interrupted else handler)

    @property
    def _is_interrupted(self) -> bool:
        return self._first > -math.inf

    def begin_ending(self) -> None:
        """From here on no signal raises, so that what is being ended is ended in order."""
        self._is_ending = True

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        now = self._clock.monotonic()
        if self._is_ending:
            self.is_hurried = now - self._first >= ECHO_SECONDS
            return
        self._is_ending, self._first = True, now
        raise KeyboardInterrupt
