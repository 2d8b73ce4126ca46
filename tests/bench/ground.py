"""What the benchmarks stand on: a server of their own, a real beat beside it, and figures of processes from /proc.

A benchmark measures from outside: the beat is `rqbeat run` in a process of its own, and nothing tells it that it is
being measured.
"""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from shared.redisio.connection import connect
from shared.redisio.server import OwnServer
from shared.settings import Settings

HERE = Path(__file__).parent
SEARCHED = f"{HERE.parents[1]}{os.pathsep}{HERE}"
"""The packages first: a bench that has the name of one must not take its place."""
REPLY_SECONDS = 120


@contextmanager
def own_server() -> Iterator[tuple[OwnServer, Any, Settings]]:
    """A server on a unix socket, a client of it, and settings that name it."""
    with tempfile.TemporaryDirectory(prefix="rqbench-") as folder:
        server = OwnServer(Path(folder))
        server.start()
        try:
            with connect(server.url, reply_seconds=REPLY_SECONDS) as client:
                yield server, client, Settings(url=server.url)
        finally:
            server.kill()


@contextmanager
def process(arguments: Sequence[str], log: Path, cwd: Path = HERE, **environment: object) -> Iterator[int]:
    """The pid of a program while it runs; it is ended with SIGTERM. What it says goes into `log`."""
    surroundings = {**os.environ, **{name: str(value) for name, value in environment.items()}}
    with (
        log.open("wb") as sink,
        subprocess.Popen(arguments, cwd=cwd, env=surroundings, stdout=sink, stderr=sink) as one,
    ):
        try:
            yield one.pid
        finally:
            one.terminate()
            try:
                one.wait(20)
            except subprocess.TimeoutExpired:
                one.kill()


@contextmanager
def beat(server: OwnServer, app: str = "bench_app:nothing_declared", **environment: object) -> Iterator[int]:
    """The pid of `rqbeat run` on a server, while it runs."""
    command = [sys.executable, "-P", "-m", "scheduler.cli", "run", app, "--url", server.url]
    with process(command, server.socket.with_name("beat.log"), PYTHONPATH=SEARCHED, **environment) as pid:
        yield pid


def said(server: OwnServer) -> str:
    """The last lines of the beat's log, for one that did not do what was waited for."""
    return "\n".join(server.socket.with_name("beat.log").read_text(errors="replace").splitlines()[-5:])


def wait_until(holds: Callable[[], object], seconds: float, what: str, pause: float = 0.005) -> float:
    """Wait for something to hold; the seconds that it took."""
    started = time.perf_counter()
    while not holds():
        if time.perf_counter() - started > seconds:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        time.sleep(pause)
    return time.perf_counter() - started


def cpu_seconds(pid: int | None) -> float:
    """Time that a process has been on a processor, all of its threads, as the kernel's scheduler counts it.

    Ticks, as in /proc/PID/stat, would miss most of a process that works for a few ms at a time.
    """
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(one.read_text().split()[0]) for one in threads) / 1e9


def memory_mb(pid: int, which: str = "VmRSS") -> float:
    """Resident memory of a process, now (VmRSS) or at its peak (VmHWM)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(which):
            return int(line.split()[1]) / 1024
    raise LookupError(which)


def percentile(values: Sequence[float], share: float) -> float:
    """The value that so large a share of all lies at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table in Markdown; all but the first column are set to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def surroundings(client: Any) -> str:
    """One line: the machine and what runs on it."""
    info = client.info("server")
    server = f"{info.get('server_name', 'redis')} {info.get('valkey_version') or info['redis_version']}"
    libraries = ", ".join(f"{name} {version(name)}" for name in ("redis", "rq", "msgpack"))
    machine = f"{os.cpu_count()} cores of {_cpu()}, {platform.system()}"
    return f"{machine}, Python {platform.python_version()}, {server}, {libraries}"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
