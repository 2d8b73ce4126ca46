"""Fixtures for every suite: a real server on a unix socket, emptied before each test that asks for it. `--table` prints
the table of faults."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis

from shared.keys import Keys
from shared.redisio.connection import connect
from shared.redisio.server import OwnServer
from tests import faulttable
from tests.chaos.checker import Verdict

Note = Callable[..., None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", action="store_true", help="print the table of faults")


def pytest_configure(config: pytest.Config) -> None:
    """A shell's background job ignores Ctrl-C, and what is started here would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.addinivalue_line("markers", "fault(id): the number of the fault that a test injects")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if fault := item.get_closest_marker("fault"):
            item.user_properties.append(("id", fault.args[0]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if not config.getoption("--table"):
        return
    kinds = ("passed", "failed", "skipped", "error")
    reports = [report for kind in kinds for report in terminalreporter.getreports(kind)]
    for line in faulttable.lines(reports):
        terminalreporter.write_line(line)


@pytest.fixture
def note(request: pytest.FixtureRequest) -> Note:
    """Adds a test's figures to the table: rounds, the verdict, and how long the fault itself lasted (s)."""

    def add(rounds: int, verdict: Verdict, lasted: float = 0) -> None:
        request.node.user_properties.extend(faulttable.figures(rounds, verdict, lasted).items())

    return add


@pytest.fixture(scope="session")
def server() -> Iterator[OwnServer]:
    """One real server for the whole run."""
    folder = Path(tempfile.mkdtemp(prefix="rqbeat-"))  # short: a socket's path has about 100 characters
    own = OwnServer(folder)
    own.start()
    yield own
    own.kill()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def redis_url(server: OwnServer) -> str:
    """The URL of an empty database of a real server."""
    with connect(server.url) as client:
        client.flushall()
    return server.url


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    """A client of that database."""
    with connect(redis_url) as client:
        yield client


@pytest.fixture
def keys() -> Keys:
    return Keys()
