"""The only module that reads time or sleeps.

Wall clock for calendar meaning (which fire is due), monotonic clock for waits, leases and time-outs: the first may
step, the second never does. The shell reads the clock once a turn and hands the value on; the core never sees this
module.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What the shell needs from time."""

    def now_ms(self) -> int:
        """The wall clock: epoch milliseconds, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never steps back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread for so many seconds."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
