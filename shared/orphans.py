"""What is left of the programs that a child started: adopted by this process and ended; its own children are spared."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_IS_LINUX = sys.platform.startswith("linux")
_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """From now on a descendant whose parent ends becomes a child of this process, in whatever session it is.

    Linux only (prctl(2)); elsewhere it becomes one of process 1.
    """
    if _IS_LINUX:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> frozenset[int]:
    """The ids of this process' children, with those that ended and were not waited for. Linux only, else none."""
    if not _IS_LINUX:
        return frozenset()
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return frozenset()
    return frozenset(int(entry.name) for entry in Path("/proc").glob("[0-9]*") if _parent(entry) == os.getpid())


def end_children(but: frozenset[int]) -> None:
    """Kill all children but some, and those that they leave behind; leaves no zombies. Blocks until they are gone.

    One that runs as another user, and so can't be killed, is left alone.
    """
    spared = set(but)
    while doomed := children() - spared:
        spared |= {pid for pid in doomed if not _kill(pid)}
        for pid in doomed - spared:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _kill(pid: int) -> bool:
    """Whether it is killed, or was dead."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def _parent(entry: Path) -> int:
    """The parent of a process in /proc, 0 when it is gone."""
    try:
        return int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    except OSError:
        return 0
