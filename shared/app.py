"""Loading the user's app: `module:attribute`, from the current folder or from what is installed.

Importing the module is what registers its jobs. What goes wrong on the way is told in one line, with the place in the
user's own code where it happened.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from types import ModuleType

from shared.errors import ConfigurationError
from shared.installation import check_folder, current_folder


def load_app(spec: str | None, folder: Path | None = None) -> object:
    """The object that `module:attribute` names; with no attribute, the module's only manager-like name `scheduler`.

    Runs the module's code. Raises ConfigurationError.
    """
    if not spec:
        raise ConfigurationError("no app given: name it as module:attribute, or set RQBEAT_APP")
    module_name, _, attribute = spec.partition(":")
    if not module_name or not all(part.isidentifier() for part in module_name.split(".")):
        raise ConfigurationError(f"app {spec!r}: expected module:attribute, such as myapp.jobs:scheduler")
    folder = current_folder() if folder is None else folder
    check_folder(folder)
    module = _import(module_name, folder)
    return _attribute(module, attribute or "scheduler", spec)


def _import(name: str, folder: Path) -> ModuleType:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"app: there is no module {name!r} in {folder} or among the installed ones"
            ) from None
        raise ConfigurationError(f"app {name}: {_where(error)}: {error}") from error
    except (Exception, SystemExit) as error:
        told = f"{type(error).__name__}: {error}"
        raise ConfigurationError(f"app {name}: {_where(error)}: {told}") from error


def _attribute(module: ModuleType, path: str, spec: str) -> object:
    found: object = module
    for part in path.split("."):
        if not hasattr(found, part):
            raise ConfigurationError(f"app {spec!r}: {module.__name__} has no {path!r}")
        found = getattr(found, part)
    return found


def _where(error: BaseException) -> str:
    """The last line of the traceback that is not inside the import machinery or this package."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    ours = str(Path(__file__).resolve().parent.parent)
    theirs = [frame for frame in own if not frame.filename.startswith(ours) or "site-packages" not in frame.filename]
    last = (theirs or own or frames)[-1]
    return f"{last.filename}:{last.lineno}"
