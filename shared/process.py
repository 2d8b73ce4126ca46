"""Ties between a process and the children it starts."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int, sig: signal.Signals = signal.SIGKILL) -> None:
    """Called in a new child: have the kernel send it `sig` when its parent, process id `parent`, ends in any way.

    Linux only (prctl(2)); elsewhere nothing happens and a killed parent leaves its children behind.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(sig), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the kernel was told
        os.kill(os.getpid(), sig)
