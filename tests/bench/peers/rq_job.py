"""Jobs of plain rq: this module imports nothing that a worker would not have anyway."""

from __future__ import annotations

import time


def nothing(number: int) -> None: ...


def now() -> float:
    return time.time()
