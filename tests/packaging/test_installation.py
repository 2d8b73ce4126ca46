"""What is shipped, what importing it does, and that the arrows between its packages hold."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from shared import installation
from shared.errors import ForeignPackageError

ROOT = Path(__file__).resolve().parents[2]

WATCHED_IMPORT = """
import os, socket, sys

class Refusing(dict):
    def __getitem__(self, name): raise AssertionError(f"read {name} from the environment")
    get = __contains__ = __iter__ = __getitem__

def refuse(*_): raise AssertionError("a socket was opened")

names = sys.argv[1:]
before = set(sys.modules)
import asyncio, inspect, json, logging, hashlib, zoneinfo, urllib.parse, msgpack  # what theirs do is theirs
os.environ = Refusing()
os.getenv = Refusing().get
socket.socket.connect = refuse
for name in names:
    module = __import__(name)
    for public in module.__all__:
        getattr(module, public)
print("redis" in sys.modules, "rq" in sys.modules)
"""


def python(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_importing_opens_no_connection_and_reads_no_environment() -> None:
    done = python("-c", WATCHED_IMPORT, "scheduler", "worker", "shared")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["False", "False"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The names of the files in the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    done = python("-m", "pip", "wheel", "--no-deps", "-q", "-w", str(folder), str(ROOT))
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("rqbeat-*.whl")
    return zipfile.ZipFile(built).namelist()


def test_the_wheel_holds_three_packages_and_nothing_else(wheel: list[str]) -> None:
    tops = {name.split("/", 1)[0] for name in wheel}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"scheduler", "worker", "shared"}


def test_the_wheel_holds_scripts_and_type_marks(wheel: list[str]) -> None:
    for package in ("scheduler", "worker", "shared"):
        assert f"{package}/py.typed" in wheel
    scripts = sorted(path.name for path in (ROOT / "shared/redisio/lua").glob("*.lua"))
    assert scripts == sorted(Path(name).name for name in wheel if name.endswith(".lua"))


def test_our_own_folder_is_no_intruder() -> None:
    installation.check()
    installation.check_folder(installation.HOME)


@pytest.mark.parametrize("name", ["scheduler", "worker", "shared"])
def test_a_module_or_package_with_one_of_our_names_is_an_intruder(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("")
    with pytest.raises(ForeignPackageError, match=name):
        installation.check_folder(tmp_path)
    (tmp_path / f"{name}.py").unlink()
    (tmp_path / name).mkdir()
    installation.check_folder(tmp_path)  # a folder without Python in it shadows nothing
    (tmp_path / name / "__init__.py").write_text("")
    with pytest.raises(ForeignPackageError, match=name):
        installation.check_folder(tmp_path)


def test_versions_are_ranges_with_an_upper_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pinned = [item for item in project["dependencies"] if item.split(">")[0] in {"redis", "rq", "msgpack", "click"}]
    assert len(pinned) == 4
    assert all(">=" in item and ",<" in item for item in pinned)


VIOLATIONS = [
    ("scheduler/beat.py", "import worker\n", "never import each other"),
    ("worker/retry.py", "import scheduler\n", "never import each other"),
    ("shared/ids.py", "import shared.job\n", "inside shared"),
    ("scheduler/planner.py", "import scheduler.beat\n", "inside scheduler"),
    ("scheduler/store.py", "import redis\n", "redis is imported by shared.redisio alone"),
    ("scheduler/store.py", "import rq\n", "rq is imported by"),
    ("scheduler/planner.py", "import shared.clock\n", "knows no clock"),
    ("scheduler/newcomer.py", "\n", "inside scheduler"),
    ("worker/retry.py", "import worker.execute\n", "inside worker"),
    ("worker/guard/job.py", "import worker.guard.loop\n", "inside the guard"),
    ("worker/pool/board.py", "import worker.pool.worker\n", "inside the pool"),
]


@pytest.mark.parametrize(("place", "line", "contract"), VIOLATIONS)
def test_each_import_contract_can_fail(tmp_path: Path, place: str, line: str, contract: str) -> None:
    """A seeded violation in a copy of the tree breaks the contract that forbids it."""
    pytest.importorskip("importlinter")
    import shutil

    for package in ("scheduler", "worker", "shared"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    target = tmp_path / place
    target.write_text((target.read_text() if target.exists() else '"""New."""\n') + line)
    run = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports; sys.exit(lint_imports())"
    done = python("-c", run, folder=tmp_path)
    broken = [text for text in done.stdout.splitlines() if text.endswith("BROKEN") or "BROKEN (" in text]
    assert done.returncode == 1, done.stdout + done.stderr
    assert any(contract in text for text in broken), done.stdout
