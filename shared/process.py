"""What a process sets up for itself: ties to the children it starts, and how eagerly it looks for garbage."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1
_OBJECTS_BETWEEN_LOOKS = 100_000


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Called in a new child: have the kernel send it `sig` when its parent, process id `parent`, ends in any way.

    Linux only (prctl(2)); elsewhere nothing happens and a killed parent leaves its children behind.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), sig)


def collect_seldom() -> None:
    """For a process that makes many objects and few cycles: leave what is there alone, and look for cycles seldom.

    What a beat makes is freed as soon as nobody holds it; the collector would look through all that is held, time and
    again. A tenth of a million objects between two looks bounds what a cycle can cost.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_LOOKS, 10, 10)
