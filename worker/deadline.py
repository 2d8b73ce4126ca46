"""Judging by clocks: when a job is too old to start, and whose clock is too wrong to judge. Pure.

Deadlines are epoch milliseconds, and are held against Redis' clock.
"""

from __future__ import annotations

from shared.instants import iso

MOST_SKEW_SECONDS = 5


def is_expired(deadline: int | None, now: int) -> bool:
    """Whether a job may no longer start. At the deadline itself it still may."""
    return deadline is not None and now > deadline


def skew_problem(here: float, at_redis: float) -> str | None:
    """Why a worker with this clock must not work, in seconds of both clocks; None when they agree well enough."""
    if abs(here - at_redis) <= MOST_SKEW_SECONDS:
        return None
    return f"this host's clock is {here - at_redis:+.1f} s off Redis' clock, more than {MOST_SKEW_SECONDS} s: set it"


def expiry_note(deadline: int, now: int) -> str:
    """The one line that is kept of a job dropped at its start."""
    return f"expired: its deadline {iso(deadline)} passed {(now - deadline) / 1000:.3f} s before it would have started"
