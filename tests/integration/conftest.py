"""Programs under test: real processes, a proxy that cuts connections, and waiting for events instead of sleeping."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.proxy import Proxy

Found = TypeVar("Found")
Spawn = Callable[..., "Program"]


def wait_for(look: Callable[[], Found], seconds: float, what: str | Callable[[], str]) -> Found:
    """The first truthy value that `look` returns. Fails when none comes within `seconds`, and says what has not."""
    ends = time.monotonic() + seconds
    while not (found := look()):
        if time.monotonic() > ends:
            pytest.fail(f"not within {seconds} s: {what if isinstance(what, str) else what()}")
        time.sleep(0.02)
    return found


class Program:
    """One `rqbeat …` process and what it wrote."""

    def __init__(
        self,
        arguments: list[str],
        folder: Path,
        output: Path,
        environ: dict[str, str],
        program: Sequence[str] = ("-m", "scheduler.cli"),
    ) -> None:
        self._output = output
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("RQBEAT_", "REDIS_"))}
        with output.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-P", *program, *arguments],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**inherited, "PYTHONUNBUFFERED": "1", **environ},
                start_new_session=True,
            )

    @property
    def text(self) -> str:
        return self._output.read_text(errors="replace")

    def says(self, *words: str, seconds: float = 15) -> None:
        """Wait until it has written these words, or others of those that are given."""
        wait_for(lambda: any(each in self.text for each in words), seconds, lambda: f"{words} in:\n{self.text[-4000:]}")

    def ends(self, seconds: float = 15) -> int:
        """Wait for its end: its exit code."""
        return self.process.wait(seconds)

    def terminate(self, seconds: float = 15) -> int:
        """SIGTERM, and the exit code that follows."""
        self.process.terminate()
        return self.ends(seconds)

    def kill(self) -> None:
        """SIGKILL, to it alone."""
        self.process.kill()
        self.process.wait()

    def json(self) -> Any:
        """The document that it printed."""
        assert self.ends() == 0, self.text
        return json.loads(self.text)


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """Start programs in a folder of the test's own; whatever still runs at its end is killed."""
    started: list[Program] = []

    def start(*arguments: str, folder: Path | None = None, **environ: str) -> Program:
        program = Program(list(arguments), folder or tmp_path, tmp_path / f"output-{len(started)}.log", environ)
        started.append(program)
        return program

    yield start
    for program in started:
        if program.process.poll() is None:
            os.killpg(program.process.pid, signal.SIGKILL)
            program.process.wait()


@pytest.fixture
def app(tmp_path: Path) -> Callable[[str], str]:
    """Write an app: the body of a module in which `scheduler`, `Job` and the triggers are at hand."""

    def write(body: str, name: str = "app") -> str:
        head = (
            "from scheduler import CronTrigger, DateTrigger, IntervalTrigger, SchedulerManager\n"
            "from shared import Job, Retry\n"
            "scheduler = SchedulerManager()\n"
        )
        (tmp_path / f"{name}.py").write_text(head + body)
        return f"{name}:scheduler"

    return write


@pytest.fixture
def proxy(server: Any) -> Iterator[Proxy]:
    """A TCP proxy in front of the real server."""
    own = Proxy(server.socket)
    yield own
    own.close()
