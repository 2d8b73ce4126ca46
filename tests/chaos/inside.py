"""`inside.py NETWORK …` is `rqbeat …` within a network namespace of that name. Only root may go there."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

from scheduler.cli import main

NEW_NETWORK = 0x40000000


def enter(network: str) -> None:
    """From here on this process has the interfaces and the rules of that network alone."""
    with Path("/run/netns", network).open() as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), NEW_NETWORK):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), network)


if __name__ == "__main__":
    enter(sys.argv[1])
    main(sys.argv[2:])
