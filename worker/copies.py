"""A run is one process' affair: a copy of it that the handler forked ends where the run would.

`os.fork()` copies the stack, and in the copy `return` or `sys.exit()` would lead on into the worker: it would end the
run a second time and, in a pool, take jobs beside its parent.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def ending_copies() -> Iterator[None]:
    """Within the block a copy of this process that comes to its end, or raises out of it, ends as a program would."""
    own, code = os.getpid(), 1
    try:
        yield
        code = 0
    except SystemExit as end:
        code = _code(end)
        raise
    finally:
        if os.getpid() != own:
            _leave(code)


def _code(end: SystemExit) -> int:
    if end.code is None or isinstance(end.code, int):
        return (end.code or 0) & 0xFF
    return 1


def _leave(code: int) -> None:
    with suppress(Exception):
        if not isinstance(sys.exception(), SystemExit | None):
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)
