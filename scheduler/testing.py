"""What tests of apps and of rqbeat itself use in place of real time."""

from __future__ import annotations

from dataclasses import dataclass

from scheduler.eager import eager
from scheduler.simulation import Decisions, simulate

__all__ = ["Decisions", "ManualClock", "eager", "simulate"]


@dataclass(slots=True)
class ManualClock:
    """A clock that stands still until it is moved. Sleeping moves it, and takes no time."""

    wall_ms: int = 1_700_000_000_000
    elapsed: float = 1000.0

    def now_ms(self) -> int:
        return self.wall_ms

    def monotonic(self) -> float:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let both clocks go on."""
        self.wall_ms += round(seconds * 1000)
        self.elapsed += seconds

    def step(self, seconds: float) -> None:
        """Set the wall clock forward or back, as an administrator or NTP would; the monotonic one goes on."""
        self.wall_ms += round(seconds * 1000)
