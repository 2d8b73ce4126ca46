"""The benchmarks run, each in its smallest form: what nobody starts for weeks is else found broken when needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[1] / "bench"

SMALL = {
    "idle.py": ("10", "--declared", "10", "--seconds", "0.2"),
    "dispatch.py": ("50", "--rounds", "1", "--least", "0"),
    "workers.py": ("rqbeat --mode pool", "--scale", "0.01", "--single", "2"),
    "burst.py": ("20", "--rounds", "1"),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_bench_runs(name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(BENCH / name), *SMALL[name]], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Traceback" not in done.stderr
    assert any(character.isdigit() for character in done.stdout)
    assert "rqbeat: " not in done.stdout, "the last words of a beat stand in the place of its figures"
