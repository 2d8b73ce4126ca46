"""Fixtures for every suite: a real server on a unix socket, emptied before each test that asks for it."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from shared.keys import Keys
from shared.redisio.connection import connect
from shared.redisio.server import OwnServer


def pytest_configure() -> None:
    """A shell's background job ignores Ctrl-C, and what is started here would inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


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
