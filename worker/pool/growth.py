"""Whether a process has grown too much since it began: by its resident memory, not by the peak of one run."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_PAGE = resource.getpagesize()
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class Growth:
    """Made when the process begins. The peak is cheap to ask for: the present is looked at only when that has grown."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._at_first = _resident() or _peak()

    def is_too_much(self) -> bool:
        """Whether it holds more than the limit beyond what it began with."""
        if _peak() - self._at_first <= self._limit:
            return False
        return (_resident() or _peak()) - self._at_first > self._limit


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT


def _resident() -> int:
    """0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return 0
