"""Faults on purpose. `RQTEST_SCALE=20` makes every test that much longer; `RQTEST_SEED` repeats a run's random choices,
which a test that fails has printed."""

from __future__ import annotations

import os
import random
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shared.redisio.server import OwnServer
from tests.chaos.arena import SCALE, Arena, ArenaOn
from tests.chaos.wrongclock import WrongClock, compile_shim
from tests.conftest import Note as Note  # noqa: PLC0414 - the name is handed on
from tests.proxy import Proxy

HERE = Path(__file__).parent
StartServer = Callable[..., OwnServer]
MakeClock = Callable[..., WrongClock]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Longer rounds need longer time-outs."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(120 * max(1.0, SCALE)))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> random.Random:
    """Random choices that can be repeated: the seed is shown when a test fails."""
    seed = int(os.environ.get("RQTEST_SEED") or secrets.randbits(32))
    print(f"RQTEST_SEED={seed}")
    request.node.user_properties.append(("seed", seed))
    return random.Random(seed)  # noqa: S311 - no secret


@pytest.fixture
def arena_on(tmp_path: Path) -> Iterator[ArenaOn]:
    """Makes arenas on servers of the test's choice; what still runs at its end is killed."""
    arenas: list[Arena] = []

    def make(direct: str) -> Arena:
        arenas.append(Arena(direct, tmp_path))
        return arenas[-1]

    yield make
    for arena in arenas:
        arena.close()


@pytest.fixture
def arena(arena_on: ArenaOn, redis_url: str) -> Arena:
    """An arena on the server that all tests share."""
    return arena_on(redis_url)


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Starts servers of the test's own, with options of `redis.conf`."""
    servers: list[OwnServer] = []

    def start(*options: str, folder: Path | None = None) -> OwnServer:
        own = OwnServer(folder or tmp_path, socket=Path(f"/tmp/rqbeat-{secrets.token_hex(4)}.sock"), options=options)  # noqa: S108 - a socket's path is short
        servers.append(own)
        own.start()
        return own

    yield start
    for own in servers:
        own.kill()
        own.socket.unlink(missing_ok=True)


@pytest.fixture
def proxy(arena: Arena) -> Iterator[Proxy]:
    """A proxy in front of the arena's server, through which its beats go."""
    own = Proxy(Path(arena.direct.removeprefix("unix://")))
    arena.url = own.url
    yield own
    own.close()


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled shim. Skipped where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler: a process' clock can't be shifted")
    return compile_shim(compiler, tmp_path_factory.mktemp("shim"))


@pytest.fixture
def wrong_clock(shim: Path, tmp_path: Path) -> MakeClock:
    """Makes clocks that are off; their `environ` starts a process under one."""
    made: list[WrongClock] = []

    def make(seconds: float = 0) -> WrongClock:
        made.append(WrongClock(shim, tmp_path / f"offset-{len(made)}", seconds))
        return made[-1]

    return make
