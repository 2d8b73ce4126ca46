"""Loading an app: what its module does while it is imported is told in one line, or passes through."""

from __future__ import annotations

from pathlib import Path

import pytest

from shared.app import load_app
from shared.errors import ConfigurationError


def write(folder: Path, name: str, body: str) -> str:
    (folder / f"{name}.py").write_text(body)
    return name


def test_an_app_that_exits_at_import_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = write(tmp_path, "app_that_exits", "import sys\n\nsys.exit(3)\n")
    with pytest.raises(ConfigurationError, match=r"app app_that_exits: .*app_that_exits\.py:3: SystemExit: 3"):
        load_app(name, tmp_path)


def test_an_interrupt_at_import_passes_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = write(tmp_path, "app_interrupted", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_app(name, tmp_path)
