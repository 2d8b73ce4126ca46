"""When a job is too old to start. Pure: all instants are epoch milliseconds handed in, by Redis' clock."""

from __future__ import annotations

from shared.instants import iso


def is_expired(deadline: int | None, now: int) -> bool:
    """Whether a job may no longer start. At the deadline itself it still may."""
    return deadline is not None and now > deadline


def expiry_note(deadline: int, now: int) -> str:
    """The one line that is kept of a job dropped at its start."""
    return f"expired: its deadline {iso(deadline)} passed {(now - deadline) / 1000:.3f} s before it would have started"
