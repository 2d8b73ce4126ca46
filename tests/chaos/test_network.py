"""What a network does to connections: replies that are lost, requests that are, silence, slowness."""

from __future__ import annotations

import hashlib
import random
import time

import pytest

from shared.errors import StoreUnavailableError
from shared.redisio.connection import connect, store_errors
from shared.redisio.scripts import source
from tests.chaos.arena import SCALE, Arena, rounds
from tests.chaos.conftest import Note
from tests.chaos.nemesis import repeat
from tests.integration.conftest import wait_for
from tests.proxy import Proxy


def sha(script: str) -> bytes:
    """What EVALSHA sends for a script."""
    return hashlib.sha1(source(script).encode()).hexdigest().encode()  # noqa: S324 - Redis' choice


@pytest.mark.fault("F08")
def test_replies_of_commits_are_lost(arena: Arena, proxy: Proxy, note: Note) -> None:
    """Redis has the commit and the beat does not know: it commits again, and finds it done."""
    arena.declare()
    arena.start(2)
    arena.goes_on()
    proxy.every, proxy.cut = 2, sha("commit")
    wait_for(lambda: proxy.strikes >= rounds(10), 60 * SCALE, "lost replies")
    proxy.cut = None
    arena.goes_on()
    note(proxy.strikes, arena.finish())
    assert "Redis answers again" in "".join(beat.text for beat in arena.beats)


@pytest.mark.fault("F09")
def test_requests_are_lost(arena: Arena, proxy: Proxy, note: Note) -> None:
    """What never arrived is sent again, whatever it was."""
    arena.declare()
    arena.start()
    arena.goes_on()
    proxy.every = 2
    for script, count in (("commit", 8), ("coming", 1), ("lease_renew", 1)):
        proxy.precut, before = sha(script), proxy.strikes
        wait_for(lambda: proxy.strikes >= before + rounds(count), 60 * SCALE, f"lost requests: {script}")  # noqa: B023 - called before the next round
        proxy.precut = None
        arena.goes_on()
    note(proxy.strikes, arena.finish())


@pytest.mark.fault("F10")
def test_connections_are_reset_every_200_ms(arena: Arena, proxy: Proxy, note: Note) -> None:
    arena.declare(4 * SCALE)
    arena.start(2)
    note(repeat(arena, 0.2, proxy.reset_all), arena.finish())


@pytest.mark.fault("F11")
def test_a_network_that_swallows_everything(arena: Arena, proxy: Proxy, rng: random.Random, note: Note) -> None:
    """Silence from 0.2 to 15 s. A third beat has a way of its own; what the others sent arrives when it is over."""
    arena.declare()
    arena.start(2)
    arena.beats.append(arena.beat(arena.direct))
    spans = [0.2, 4.5] if SCALE <= 1 else [0.2, 15.0, *(rng.uniform(0.2, 15) for _ in range(rounds(1)))]
    for seconds in spans:
        arena.has_leader()
        arena.goes_on()
        with proxy.blackhole():
            time.sleep(seconds)
        arena.goes_on(within=8)
    note(len(spans), arena.finish())


@pytest.mark.fault("F11")
def test_a_client_in_silence_is_told_within_two_seconds(arena: Arena, proxy: Proxy) -> None:
    with connect(proxy.url) as client:
        client.ping()
        began = time.monotonic()
        with proxy.blackhole(), pytest.raises(StoreUnavailableError), store_errors():
            client.ping()
        assert 1.5 < time.monotonic() - began < 3.5  # one time-out of 2 s, not two


@pytest.mark.fault("F12")
@pytest.mark.parametrize(("delay", "throttle"), [(0.5, 0), (0.05, 2000)])
def test_a_slow_network(arena: Arena, proxy: Proxy, note: Note, delay: float, throttle: int) -> None:
    """Half a second each way, or 2,000 bytes a second: fires are late, none is lost, and no beat spins."""
    arena.declare()
    arena.start()
    arena.goes_on()
    proxy.delay, proxy.throttle = delay, throttle
    before, began = _cpu_seconds(arena), time.monotonic()
    arena.goes_on(100 * rounds(1), within=60 * SCALE)
    assert (_cpu_seconds(arena) - before) / (time.monotonic() - began) < 0.2
    proxy.delay = proxy.throttle = 0
    note(1, arena.finish())


@pytest.mark.fault("F12")
def test_a_network_of_one_byte_a_second_ends_a_lease(arena: Arena, proxy: Proxy, note: Note) -> None:
    """A reply that drips in keeps a call alive for minutes: a beat with a better way takes over meanwhile."""
    arena.declare()
    arena.start()
    arena.goes_on()
    arena.beats.append(arena.beat(arena.direct))
    arena.beats[1].says("now standby")
    proxy.throttle = 1
    wait_for(lambda: arena.leader() is arena.beats[1], 10, "another leader")
    arena.goes_on()
    proxy.throttle = 0
    note(1, arena.finish())


def _cpu_seconds(arena: Arena) -> float:
    """Processor time of the first beat so far."""
    fields = (arena.proc(0) / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100
