"""The guard against a stranger in our place.

`scheduler`, `worker` and `shared` are generic names: a user's own `worker.py` may stand before ours on the import path.
Each entry point calls `check` before it does anything else.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

from shared.errors import ForeignPackageError

NAMES = ("scheduler", "worker", "shared")


def check() -> None:
    """Raises ForeignPackageError, naming the intruder, unless all three packages lie side by side."""
    home = Path(__file__).resolve().parent.parent
    for name in NAMES:
        found = _origin(name)
        if found != home / name / "__init__.py":
            raise ForeignPackageError(
                f"the name `{name}` belongs to rqbeat here, but {found or 'nothing'} takes its place: "
                f"rename it, or run rqbeat from another folder"
            )


def _origin(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return Path(spec.origin).resolve() if spec and spec.origin else None
