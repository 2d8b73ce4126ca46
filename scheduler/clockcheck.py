"""Whether this host's clock can be trusted: beside Redis' clock, and beside elapsed time. Says what it sees once.

A fire that was accepted under a wrong clock would silence its schedule until the clock has caught up. So a beat whose
clock is more than `SKEW_MS` off Redis' does not lead. A clock that jumped against the time that really passed (a step,
or a machine that slept) is told; what it means for fires is the planner's catch-up rule, and nothing is done here.
"""

from __future__ import annotations

import logging

from shared.clock import Clock

log = logging.getLogger("rqbeat.beat")

SKEW_MS = 5000
JUMP_MS = 1000


class ClockCheck:
    """One process' clock under observation. `problem` is "" while it may lead."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = self._wall_minus_elapsed()
        self.problem = ""
        self.skew_ms = 0

    def agrees(self, store_now: int) -> bool:
        """Compare with the store's clock (ms), read a moment ago. Whether this beat may lead."""
        self._notice_jump()
        self.skew_ms = self._clock.now_ms() - store_now
        is_off = abs(self.skew_ms) > SKEW_MS
        if is_off and not self.problem:
            log.error("not leading: this host's clock is %+.1f s off Redis' clock", self.skew_ms / 1000)
        if self.problem and not is_off:
            log.info("this host's clock agrees with Redis' clock again")
        self.problem = f"this host's clock is {self.skew_ms / 1000:+.0f} s off Redis' clock" if is_off else ""
        return not is_off

    def _notice_jump(self) -> None:
        offset = self._wall_minus_elapsed()
        jump, self._offset = offset - self._offset, offset
        if abs(jump) > JUMP_MS:
            log.warning("this host's clock moved %+.1f s against elapsed time: a step, or a suspend", jump / 1000)

    def _wall_minus_elapsed(self) -> float:
        return self._clock.now_ms() - self._clock.monotonic() * 1000
