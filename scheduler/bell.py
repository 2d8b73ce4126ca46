"""How a waiting beat is woken: a pipe that anything may write to, from another thread or from a signal handler."""

from __future__ import annotations

import contextlib
import os
import select


class Bell:
    """Wait here, ring from anywhere. Rings that come before a wait, or many at once, end one wait."""

    def __init__(self) -> None:
        self._ear, self._rope = os.pipe()
        os.set_blocking(self._ear, False)
        os.set_blocking(self._rope, False)

    def ring(self) -> None:
        """Wake the one who waits. Takes no lock, so that a signal handler may call it."""
        with contextlib.suppress(BlockingIOError, OSError):  # full: it will wake anyway; closed: nobody waits
            os.write(self._rope, b"!")

    def wait(self, seconds: float) -> bool:
        """Block for up to `seconds`. Whether it rang."""
        if not select.select([self._ear], [], [], max(0.0, seconds))[0]:
            return False
        with contextlib.suppress(BlockingIOError):
            while os.read(self._ear, 4096):
                pass
        return True

    def close(self) -> None:
        os.close(self._ear)
        os.close(self._rope)
