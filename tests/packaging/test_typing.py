"""What type checkers say of calls in `typing/calls.py`: the right ones pass, and each wrong one is found."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CALLS = ROOT / "tests" / "packaging" / "typing" / "calls.py"


def mypy(file: Path) -> subprocess.CompletedProcess[str]:
    flags = ["--strict", "--warn-unused-ignores", "--config-file", str(ROOT / "pyproject.toml")]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *flags, str(file)], cwd=ROOT, capture_output=True, text=True, check=False
    )


def wrong_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines(), 1) if "# type: ignore" in line]


def test_mypy_finds_each_wrong_call_and_no_right_one() -> None:
    pytest.importorskip("mypy")
    done = mypy(CALLS)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_would_say_when_a_wrong_call_passes(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    file = tmp_path / "calls.py"
    file.write_text(CALLS.read_text().replace('Send.dispatch("1")', "Send.dispatch(Order(1))"))
    done = mypy(file)
    assert done.stdout.count("unused-ignore") == 1, done.stdout + done.stderr


@pytest.fixture
def pyright() -> str:
    """Where pyright is installed; it brings a Node.js of its own, so no extra asks for it."""
    beside = Path(sys.executable).with_name("pyright")
    found = str(beside) if beside.is_file() else shutil.which("pyright")
    if not found:
        pytest.skip("pyright is not installed")
    return found


def test_pyright_finds_each_wrong_call_and_no_right_one(pyright: str, tmp_path: Path) -> None:
    shutil.copy(CALLS, tmp_path)
    config = {"include": ["calls.py"], "extraPaths": [str(ROOT)], "enableTypeIgnoreComments": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [pyright, "--project", str(tmp_path), "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    lines = sorted({item["range"]["start"]["line"] + 1 for item in found if item["severity"] == "error"})
    assert lines == wrong_lines(CALLS.read_text()), done.stdout
