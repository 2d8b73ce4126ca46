"""Where this process stands, and the guard against a stranger in our place.

`scheduler`, `worker` and `shared` are generic names: a user's own `worker.py` may stand before ours on the import path,
in one process and not in another. Each entry point calls `check` before it does anything else, and `check_folder` with
the folder that an app is loaded from.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from shared.errors import ConfigurationError, ForeignPackageError

NAMES = ("scheduler", "worker", "shared")
HOME = Path(__file__).resolve().parent.parent


def check() -> None:
    """Raises ForeignPackageError, naming the intruder, unless all three packages lie side by side."""
    for name in NAMES:
        found = _origin(name)
        if found != HOME / name / "__init__.py":
            raise _foreign(name, found)


def check_folder(folder: Path) -> None:
    """Raises ForeignPackageError when a folder that goes onto the import path holds one of our names."""
    if folder.resolve() == HOME:
        return
    for name in NAMES:
        module, package = folder / f"{name}.py", folder / name
        if module.is_file():
            raise _foreign(name, module)
        if package.is_dir() and any(package.glob("*.py")):
            raise _foreign(name, package)


def current_folder() -> Path:
    """The folder that this process is in. Raises ConfigurationError when it was deleted."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise ConfigurationError("the current folder was deleted: change to one that exists") from None


def _origin(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).resolve() if spec and spec.origin else None


def _foreign(name: str, found: Path | None) -> ForeignPackageError:
    return ForeignPackageError(
        f"the name `{name}` belongs to rqbeat, but {found or 'nothing'} takes its place: "
        "rename that, or run rqbeat from another folder"
    )
