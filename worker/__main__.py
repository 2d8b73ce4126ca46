"""`python -m worker`: the command by itself, for process managers that want no console script."""

from __future__ import annotations

from worker.cli import command

if __name__ == "__main__":
    command()
