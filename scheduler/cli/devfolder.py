"""`.rqbeat/`: what `rqbeat dev` keeps in the folder where it is started.

lock          held by the one `dev` whose server keeps its data here
data/APP/     what that server holds, a folder for each app
url           the URL of that server while it runs: commands in this folder find it there
dev.log       every line of the processes; `dev.log.1` is the one before
"""

from __future__ import annotations

import fcntl
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from scheduler.cli.heard import LineLog
from shared.errors import ConfigurationError
from shared.settings import DEV_URL


class DevFolder:
    """That folder in the current one. `is_lasting` is false for one that stands in where nothing may be written."""

    def __init__(self, path: Path, *, is_lasting: bool) -> None:
        self.path = path
        self.is_lasting = is_lasting
        self._url = path / DEV_URL.name

    @property
    def log(self) -> LineLog | None:
        """Where lines are kept; nowhere if the folder ends with the command."""
        return LineLog(self.path / "dev.log") if self.is_lasting else None

    def names(self, url: str) -> bool:
        """Whether this is the URL that a `dev` of this folder has left: of one that runs, or of one that was killed."""
        return self._url.is_file() and self._url.read_text(encoding="utf-8").strip() == url

    def data_of(self, app: str) -> Path:
        """The folder of one app's data, made if need be."""
        folder = self.path / "data" / (re.sub(r"[^\w.-]+", "-", app).strip(".-") or "app")
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def held(self) -> Iterator[None]:
        """Held by this process alone. Raises ConfigurationError when another holds it."""
        with (self.path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise ConfigurationError(f"another `rqbeat dev` runs in {Path.cwd()}: end it, or give --url") from None
            yield

    @contextmanager
    def announced(self, url: str) -> Iterator[None]:
        """The URL can be read here within the block."""
        draft = self._url.with_suffix(".new")  # so that nobody reads half of it
        draft.write_text(url + "\n", encoding="utf-8")
        draft.replace(self._url)
        try:
            yield
        finally:
            self._url.unlink(missing_ok=True)


@contextmanager
def dev_folder() -> Iterator[DevFolder]:
    """The folder here; a temporary one where nothing may be written."""
    path = Path.cwd() / DEV_URL.parent
    try:
        path.mkdir(exist_ok=True)
        (path / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError:
        path = Path(tempfile.mkdtemp(prefix="rqbeat-data-"))
        try:
            yield DevFolder(path, is_lasting=False)
        finally:
            shutil.rmtree(path, ignore_errors=True)
        return
    yield DevFolder(path, is_lasting=True)
