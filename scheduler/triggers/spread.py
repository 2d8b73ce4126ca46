"""Jitter that is a function.

A random delay would differ from one beat to the next and after each restart, and a fire could not be told from its
double. So the delay is a hash of the schedule's id and the nominal time: spread evenly, and the same for ever.
"""

from __future__ import annotations

import hashlib


def jitter_ms(schedule_id: str, nominal_ms: int, jitter_ms: int) -> int:
    """The delay of one fire, in [0, jitter_ms]. It moves the due time only; the caller keeps it before the next one."""
    if jitter_ms <= 0:
        return 0
    digest = hashlib.sha256(f"{schedule_id}\0{nominal_ms}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") % (jitter_ms + 1)
