"""`rqbeat dev`: the whole system in one terminal, for a first look and for daily work.

A server of its own (unless a URL is given), a beat, workers, and a view of what they do. What the server holds is kept
in `.rqbeat/` in the current folder, so that a pause or a queue outlives a restart. One Ctrl-C ends it all.
"""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import click

from scheduler.catalog import load_manager
from scheduler.cli.cells import width
from scheduler.cli.children import GRACE_SECONDS, Children
from scheduler.cli.common import redis_options, settings, table
from scheduler.cli.devfolder import DevFolder, dev_folder
from scheduler.cli.heard import Heard
from scheduler.cli.interrupts import Interrupts
from scheduler.cli.listing import HEADINGS, schedule_rows
from scheduler.cli.queues import HEADINGS as QUEUE_HEADINGS
from scheduler.cli.queues import queue_rows
from scheduler.cli.screen import Line, Screen, fitted
from scheduler.readers import Reader
from scheduler.wiring import open_client
from shared.clock import Clock, SystemClock
from shared.errors import ConfigurationError, RqbeatError, StoreError, StoreUnavailableError
from shared.redisio.queues import queues
from shared.redisio.server import OwnServer
from shared.settings import DEFAULT_URL, Settings

PORT = 6379
TABLE_EVERY = 5
LEFT_OUT = ("LAST", "NEXT", "TRIGGER", "QUEUE")
QUEUE_LEFT_OUT = ("DEFERRED", "TAKEN", "OLDEST", "SCHEDULED")
"""The columns that a narrow terminal does without, the first one first."""


@click.command()
@click.argument("app", required=False)
@click.option("-n", "--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Workers a queue.")
@redis_options
def dev(app: str | None, processes: int, url: str | None, namespace: str | None) -> None:
    """Run APP (module:attribute) with everything it needs, until Ctrl-C. Needs no Redis installed."""
    asked = settings(url, namespace, app)
    asked = asked.of_app(load_manager(asked.app))
    clock = SystemClock()
    with Interrupts(clock) as interrupts, dev_folder() as folder, _server(asked, folder, clock) as own:
        found = replace(asked, url=own.url) if own else asked
        _Session(found, folder, own, interrupts, clock).run(processes)


class _Session:
    """Beat and workers from their start to their end, and what is shown of them."""

    def __init__(
        self, found: Settings, folder: DevFolder, own: OwnServer | None, interrupts: Interrupts, clock: Clock
    ) -> None:
        self._found = found
        self._folder = folder
        self._own = own
        self._interrupts = interrupts
        self._clock = clock
        self._screen = Screen()
        self._heard = Heard(folder.log, is_shown_at_once=not self._screen.is_live)
        self._children = Children(clock, self._heard)

    def run(self, processes: int) -> None:
        """Blocks until interrupted. Raises RqbeatError when a part of it ends by itself."""
        try:
            with self._screen:
                self._start(processes)
                self._watch(View(self._found, self._clock, self._heard))
        except KeyboardInterrupt:
            _tell(f"stopping; waiting up to {GRACE_SECONDS:.0f} s for running jobs; Ctrl-C again ends now")
        finally:
            self._interrupts.begin_ending()
            self._end()

    def _start(self, processes: int) -> None:
        spec, found = self._found.app or "", self._found
        shared_flags = ["--url", found.url, *(["--namespace", found.namespace] if found.namespace else [])]
        self._children.start("beat", ["run", spec, "--verbose", *shared_flags])
        self._children.start("worker", ["worker", "--app", spec, "-n", str(processes), *shared_flags])

    def _watch(self, view: View) -> None:
        """Draw until a part ends: each second on a terminal, now and then elsewhere."""
        if not self._screen.is_live:
            click.echo(view.title())
        turn = 0
        while True:
            self._check()
            if self._screen.is_live:
                self._screen.draw(view.frame(*self._screen.size))
            elif turn % TABLE_EVERY == TABLE_EVERY - 1:
                self._screen.draw(view.tables())
            self._clock.sleep(1)
            turn += 1

    def _check(self) -> None:
        if self._children.is_unheard:
            raise BrokenPipeError
        if self._own and self._own.exit_code is not None:
            log = self._folder.data_of(self._found.app or "") / "server.log"
            raise RqbeatError(f"the server ended with code {self._own.exit_code}; its log is {os.path.relpath(log)}")
        if ended := self._children.ended():
            self._clock.sleep(0.2)  # its last words are still in the pipe
            words = self._heard.last_words(ended.name)
            raise RqbeatError(f"the {ended.name} ended with code {ended.process.returncode}:\n{words}")

    def _end(self) -> None:
        killed = self._children.stop(lambda: self._interrupts.is_hurried)
        if killed:
            _tell(
                f"killed: {' and '.join(killed)}; a job that ran then counts as a failed attempt soon after a restart"
            )
        if self._folder.log and not self._children.is_unheard:
            _tell(f"what they wrote is in {os.path.relpath(self._folder.log.path)}")


class View:
    """What is drawn: schedules, queues, and the latest lines of the processes."""

    def __init__(self, found: Settings, clock: Clock, heard: Heard) -> None:
        self._found = found
        self._clock = clock
        self._heard = heard
        self._client = open_client(found, "rqbeat-dev")
        self._reader = Reader(self._client, found.keys)

    def title(self) -> str:
        """What this is, and where another terminal finds it."""
        return f"rqbeat dev · {self._found.shown_url} · Ctrl-C ends all"

    def frame(self, columns: int, rows: int) -> list[Line]:
        """The lines of one frame of a terminal."""
        return fitted(Line(self.title()), self._parts(columns), self._heard.latest(), rows)

    def tables(self) -> list[Line]:
        """The tables alone, as wide as they are."""
        return [line for part in self._parts(None) for line in (Line(""), *part)]

    def _parts(self, columns: int | None) -> list[list[Line]]:
        try:
            return [self._schedules(columns), self._queues(columns)]
        except StoreError as error:
            return [[Line(str(error), is_failure=True)]]

    def _schedules(self, columns: int | None) -> list[Line]:
        views = self._reader.schedules()
        lines = _narrowed(HEADINGS, schedule_rows(views, self._clock.now_ms()), columns, LEFT_OUT)
        return _marked(lines, [bool(view.error or view.errors) for view in views])

    def _queues(self, columns: int | None) -> list[Line]:
        views = queues(self._client, self._found.keys, self._clock)
        lines = _narrowed(QUEUE_HEADINGS, queue_rows(views), columns, QUEUE_LEFT_OUT)
        return _marked(lines, [view.failed > 0 for view in views])


def _narrowed(
    headings: Sequence[str], rows: Sequence[Sequence[object]], columns: int | None, left_out: Sequence[str]
) -> list[str]:
    """A table without as many of the columns that may be left out as do not fit."""
    lines = table(headings, rows)
    for name in left_out:
        if columns is None or max(map(width, lines)) <= columns:
            break
        at = headings.index(name)
        headings = [heading for heading in headings if heading != name]
        rows = [[*row[:at], *row[at + 1 :]] for row in rows]
        lines = table(headings, rows)
    return lines


def _marked(lines: Sequence[str], failures: Sequence[bool]) -> list[Line]:
    return [Line(text, is_failure) for text, is_failure in zip(lines, (False, *failures), strict=True)]


@contextmanager
def _server(asked: Settings, folder: DevFolder, clock: Clock) -> Iterator[OwnServer | None]:
    """A server of our own that ends with the block; None when another was named."""
    if "url" in asked.flags or (asked.url != DEFAULT_URL and not folder.names(asked.url)):
        yield None
        return
    with folder.held(), tempfile.TemporaryDirectory(prefix="rqbeat-") as nook:
        own = _started(folder.data_of(asked.app or ""), Path(nook) / "redis.sock", clock)
        try:
            with folder.announced(own.url):
                yield own
        finally:
            own.stop()


def _started(data: Path, path: Path, clock: Clock) -> OwnServer:
    """A server that answers. Its port is looked for anew if another program has taken it in the moment between."""
    while True:
        port = _free_port()
        own = OwnServer(data, port=port, socket=path, options=("--appendonly", "yes", "--appendfsync", "everysec"))
        try:
            own.start(clock)
        except StoreUnavailableError:
            own.stop()
            if _if_free(port):
                raise
        except BaseException:
            own.stop()
            raise
        else:
            return own


def _free_port() -> int:
    """The port that every client tries first, if it is free; else any."""
    if port := _if_free(PORT) or _if_free(0):
        return port
    raise ConfigurationError("no port is free on 127.0.0.1")


def _if_free(port: int) -> int | None:
    """The port, or any for 0, if it is free; else None."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return None
        return int(probe.getsockname()[1])


def _tell(message: str) -> None:
    with suppress(OSError):  # the terminal may be what has gone
        click.echo(message, err=True)
