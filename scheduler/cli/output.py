"""An output that takes nothing: closed before the command began, on a full disk, or one whose reader has gone."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class UnheardError(Exception):
    """Whoever read the output has gone."""


@contextmanager
def telling_unheard() -> Iterator[None]:
    """Within the block a broken pipe is an UnheardError: click would make an exit code of 1 of it."""
    try:
        yield
    except BrokenPipeError as error:
        raise UnheardError from error


class _Closed(io.RawIOBase):
    """Stands for an output that is closed, which Python and click would pass over in silence."""

    def writable(self) -> bool:
        return True

    def write(self, _data: object) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def notice_closed_output() -> None:
    """Make writing to an output that was closed before this process began an OSError."""
    if getattr(sys, "stdout", None) is None:
        sys.stdout = io.TextIOWrapper(_Closed(), write_through=True)


def drop_output() -> None:
    """Write no more: what is still buffered would fail once more when the interpreter ends."""
    if isinstance(getattr(sys.stdout, "buffer", None), _Closed):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - lasts as long as the process
        return
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
