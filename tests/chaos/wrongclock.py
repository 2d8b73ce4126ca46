"""Wrong clocks for single processes, by a shim that is preloaded: `clockshim.c`."""

from __future__ import annotations

import struct
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).with_name("clockshim.c")


def compile_shim(compiler: str, folder: Path) -> Path:
    """The library to preload."""
    library = folder / "clockshim.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", library, SOURCE], check=True)
    return library


class WrongClock:
    """A clock of one process that is off by so many seconds, and can be set while it runs."""

    def __init__(self, shim: Path, file: Path, seconds: float) -> None:
        self._file = file
        self.set(seconds)
        self.environ = {"LD_PRELOAD": str(shim), "CLOCKSHIM_FILE": str(file)}

    def set(self, seconds: float) -> None:
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("=q", round(seconds * 1_000_000)))

    def run_at(self, ppm: float, seconds: float) -> None:
        """Run fast, or slow, by so many parts in a million, from now on for so long. Blocks."""
        began = time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            self.set(passed * ppm / 1_000_000)
            time.sleep(0.005)
