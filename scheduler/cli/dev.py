"""`rqbeat dev`: the whole system in one terminal, for a first look and for daily work.

A server of its own (unless a URL is given), a beat, workers, and a view of what they do. What the server holds is kept
in `.rqbeat/` in the current folder, so that a pause or a queue outlives a restart. One Ctrl-C ends it all.
"""

from __future__ import annotations

import fcntl
import shutil
import signal
import socket
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

import click

from scheduler.catalog import load_manager
from scheduler.cli.children import Children
from scheduler.cli.common import redis_options, settings, table
from scheduler.cli.listing import HEADINGS, schedule_rows
from scheduler.cli.queues import HEADINGS as QUEUE_HEADINGS
from scheduler.cli.queues import queue_rows
from scheduler.cli.screen import Screen
from scheduler.readers import Reader
from scheduler.wiring import open_client
from shared.clock import Clock, SystemClock
from shared.errors import ConfigurationError, RqbeatError, StoreError
from shared.redisio.queues import queues
from shared.redisio.server import OwnServer
from shared.settings import DEFAULT_URL, Settings

FOLDER = ".rqbeat"
PORT = 6379
TABLE_EVERY = 5
LINES_KEPT = 200


@click.command()
@click.argument("app", required=False)
@click.option("-n", "--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Workers a queue.")
@redis_options
def dev(app: str | None, processes: int, url: str | None, namespace: str | None) -> None:
    """Run APP (module:attribute) with everything it needs, until Ctrl-C. Needs no Redis installed."""
    asked = settings(url, namespace, app)
    asked = asked.of_app(load_manager(asked.app))
    clock = SystemClock()
    named = asked.url if "url" in asked.flags or asked.url != DEFAULT_URL else None
    with _server(named, clock) as own_url, _interruptible():
        _run(asked.app or "", replace(asked, url=own_url), processes, clock)


def _run(spec: str, found: Settings, processes: int, clock: Clock) -> None:
    lines: deque[str] = deque(maxlen=LINES_KEPT)
    with Screen() as screen:
        children = Children(clock, lines.append if screen.is_live else click.echo)
        try:
            shared_flags = ["--url", found.url, *(["--namespace", found.namespace] if found.namespace else [])]
            children.start("beat", ["run", spec, "--verbose", *shared_flags])
            children.start("worker", ["worker", "--app", spec, "-n", str(processes), *shared_flags])
            _watch(View(found, clock, lines), screen, children, clock)
        except KeyboardInterrupt:
            click.echo("stopping …", err=True)
        finally:
            children.stop()


def _watch(view: View, screen: Screen, children: Children, clock: Clock) -> None:
    """Draw until interrupted: each second on a terminal, now and then elsewhere."""
    turn = 0
    while not (ended := children.ended()):
        if screen.is_live or turn % TABLE_EVERY == TABLE_EVERY - 1:
            screen.draw(view.frame(with_lines=screen.is_live))
        clock.sleep(1)
        turn += 1
    clock.sleep(0.2)  # its last words are still in the pipe
    raise RqbeatError(f"the {ended.name} ended with code {ended.process.returncode}:\n{view.last_words(ended.name)}")


class View:
    """What is drawn: schedules, queues, and the latest lines of the processes."""

    def __init__(self, found: Settings, clock: Clock, lines: deque[str]) -> None:
        self._found = found
        self._clock = clock
        self._lines = lines
        self._client = open_client(found, "rqbeat-dev")
        self._reader = Reader(self._client, found.keys)

    def frame(self, *, with_lines: bool) -> list[str]:
        """The lines of one frame."""
        try:
            parts = [self._title(), *self._schedules(), "", *self._queues()]
        except StoreError as error:
            parts = [self._title(), str(error)]
        return [*parts, "", *list(self._lines)[-20:]] if with_lines else ["", *parts]

    def last_words(self, name: str) -> str:
        """The latest lines of one process; none where they were printed as they came."""
        return "\n".join(line for line in self._lines if line.lstrip().startswith(name))

    def _title(self) -> str:
        return f"rqbeat dev · {self._found.shown_url} · Ctrl-C ends all"

    def _schedules(self) -> list[str]:
        return table(HEADINGS, schedule_rows(self._reader.schedules(), self._clock.now_ms()))

    def _queues(self) -> list[str]:
        return table(QUEUE_HEADINGS, queue_rows(queues(self._client, self._found.keys, self._clock)))


@contextmanager
def _server(named: str | None, clock: Clock) -> Iterator[str]:
    """The URL of the server to use: the one that was named, or one of our own that ends with the block."""
    if named:
        yield named
        return
    with _data_folder() as folder, tempfile.TemporaryDirectory(prefix="rqbeat-") as nook:
        own = OwnServer(
            folder,
            port=_free_port(),
            socket=Path(nook) / "redis.sock",
            options=("--appendonly", "yes", "--appendfsync", "everysec"),
        )
        own.start(clock)
        if own.url != f"redis://127.0.0.1:{PORT}/0":
            click.echo(f"port {PORT} is taken: for other terminals, export RQBEAT_REDIS_URL={own.url}", err=True)
        try:
            yield own.url
        finally:
            own.stop()


@contextmanager
def _data_folder() -> Iterator[Path]:
    """`.rqbeat/` here, held by this process alone; a temporary folder where nothing may be written."""
    folder = Path.cwd() / FOLDER
    try:
        folder.mkdir(exist_ok=True)
        (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    except OSError:
        nowhere = Path(tempfile.mkdtemp(prefix="rqbeat-data-"))
        yield nowhere
        shutil.rmtree(nowhere, ignore_errors=True)
        return
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigurationError(f"another `rqbeat dev` runs in {Path.cwd()}: end it, or give --url") from None
        yield folder


def _free_port() -> int:
    """The port that every client tries first, if it is free; else any."""
    for port in (PORT, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ConfigurationError("no port is free on 127.0.0.1")


@contextmanager
def _interruptible() -> Iterator[None]:
    """SIGTERM ends a block as Ctrl-C does; a second signal while it ends is ignored."""

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(name, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {name: signal.signal(name, interrupt) for name in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(name, handler)
