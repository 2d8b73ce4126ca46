"""Real worker processes on a real server, watched through Redis."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox

HERE = Path(__file__).parent
ROOT = HERE.parents[2]

sys.path.insert(0, str(HERE / "app"))


class Workers:
    """Starts `python -m worker` and kills what is left at the end."""

    def __init__(self, url: str, folder: Path, mode: str = "fork") -> None:
        self.url = url
        self.mode = mode
        self.folder = folder
        self.python_path = f"{ROOT}:{HERE / 'app'}"
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self, *args: str, **environ: str) -> subprocess.Popen[bytes]:
        env = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("RQBEAT_", "RQ_", "REDIS_"))},
            "PYTHONPATH": self.python_path,
            "RQBEAT_REDIS_URL": self.url,
            "RQBEAT_APP": "bench_jobs:scheduler",
            "PYTHONUNBUFFERED": "1",
            **environ,
        }
        command = [sys.executable, "-m", "worker", "--mode", self.mode, *args]
        with (self.folder / f"worker-{len(self.started)}.log").open("wb") as log:
            process = subprocess.Popen(
                command, env=env, cwd=self.folder, stderr=log, stdout=log, start_new_session=True
            )
        self.started.append(process)
        return process

    def log(self, index: int = -1) -> str:
        index = index % len(self.started)
        return (self.folder / f"worker-{index}.log").read_text(errors="replace")

    def end(self) -> None:
        """Kill what is left, and wait until its children are gone: one that waits would take the next test's job."""
        left = [process for process in self.started if process.poll() is None]
        below = [pid for process in left for pid in descendants(process.pid)]
        for process in left:
            process.send_signal(signal.SIGKILL)
        for process in self.started:
            process.wait()
        ends = time.monotonic() + 5
        while any(Path(f"/proc/{pid}").exists() for pid in below) and time.monotonic() < ends:
            time.sleep(0.005)


def descendants(pid: int) -> list[int]:
    """The processes below one, its children first."""
    try:
        below = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []
    return below + [deeper for child in below for deeper in descendants(child)]


@pytest.fixture(params=["fork", "pool"])
def workers(redis_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Workers]:
    """What holds of a worker holds in both modes."""
    found = Workers(redis_url, tmp_path, request.param)
    yield found
    found.end()


@pytest.fixture(autouse=True)
def _outbox(client: redis.Redis, keys: Keys, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("RQBEAT_REDIS_URL", redis_url)
    with using_outbox(RedisOutbox(client, keys)):
        yield


@pytest.fixture
def eventually() -> Callable[..., Any]:
    """Waits until a function returns something true, and returns it."""

    def wait(probe: Callable[[], Any], seconds: float = 10.0) -> Any:
        ends = time.monotonic() + seconds
        while not (found := probe()):
            if time.monotonic() > ends:
                raise AssertionError(f"nothing true within {seconds} s, last: {found!r}")
            time.sleep(0.02)
        return found

    return wait


@pytest.fixture
def status(client: redis.Redis, keys: Keys) -> Callable[[str], str | None]:
    def read(job_id: str) -> str | None:
        found = client.hget(keys.rq_job(job_id), "status")
        return found.decode() if isinstance(found, bytes) else None

    return read


@pytest.fixture
def reason(client: redis.Redis, keys: Keys) -> Callable[[str], str]:
    """The last line of why a job failed."""

    def read(job_id: str) -> str:
        found = client.hget(keys.rq_job(job_id), "last_error")
        return found.decode() if isinstance(found, bytes) else ""

    return read


@pytest.fixture
def effects(client: redis.Redis) -> Callable[[str], list[str]]:
    def read(name: str) -> list[str]:
        return [value.decode() for value in client.lrange(f"effects:{name}", 0, -1)]

    return read
