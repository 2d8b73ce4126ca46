"""Where the beat may be cut off on purpose: named points of its loop, and a switch that kills the process at one.

The promise is that a beat may die at any instruction. These are the instructions between which something changes, so a
test that kills at each of them has tried them all. Unless `RQBEAT_FAILPOINT` names one, reaching a point does nothing.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
from collections.abc import Callable
from typing import Literal, get_args

from shared.errors import ConfigurationError

Point = Literal[
    "before-renew",  # the lease is about to be renewed, or looked at
    "after-renew",
    "after-due",  # the timetable was read
    "after-load",  # the definitions were read
    "after-plan",
    "before-commit",
    "after-commit",  # Redis has it, this process has not acted on the reply
    "waiting",
]
POINTS: tuple[Point, ...] = get_args(Point)


def nothing(_point: Point) -> None:
    """What happens at a point of a beat that is not under test."""


def kill_at(wanted: str | None) -> Callable[[Point], None]:
    """What kills this process, as `kill -9` would, at `point` or, with `point:n`, when it is reached the n-th time.

    Raises ConfigurationError for a point that there is not.
    """
    if not wanted:
        return nothing
    name, _, count = wanted.partition(":")
    if name not in POINTS or not re.fullmatch(r"[1-9]\d*", count or "1"):
        near = difflib.get_close_matches(name, POINTS, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(POINTS)}"
        raise ConfigurationError(f"RQBEAT_FAILPOINT: {wanted!r} is no point or point:n; {hint}")
    left = int(count or 1)

    def reached(point: Point) -> None:
        nonlocal left
        left -= point == name
        if point == name and left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached
