"""A real partition: beats on a network of their own, whose packets are dropped without a word to anybody."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.leader import LEASE_SECONDS
from tests.chaos.arena import RQBEAT, SCALE, Arena, ArenaOn, rounds
from tests.chaos.conftest import Note, StartServer
from tests.integration.conftest import wait_for

INSIDE = str(Path(__file__).with_name("inside.py"))
PORT = 6399


class Network:
    """A network namespace, and the pair of interfaces that joins it to this host."""

    def __init__(self) -> None:
        self.name = f"rqbeat-{secrets.token_hex(3)}"
        subnet = f"10.{secrets.randbelow(100) + 100}.{secrets.randbelow(256)}"
        self.host, self._guest = f"{subnet}.1", f"{subnet}.2"
        self._near, self._far = self.name.replace("beat", "n"), self.name.replace("beat", "f")

    def make(self) -> None:
        run("ip", "netns", "add", self.name)
        run("ip", "link", "add", self._near, "type", "veth", "peer", "name", self._far, "netns", self.name)
        run("ip", "addr", "add", f"{self.host}/30", "dev", self._near)
        run("ip", "link", "set", self._near, "up")
        self.within("ip", "addr", "add", f"{self._guest}/30", "dev", self._far)
        self.within("ip", "link", "set", self._far, "up")
        self.within("iptables", "-L", "-n")

    def unmake(self) -> None:
        """Its interfaces go with it."""
        subprocess.run(["ip", "netns", "del", self.name], capture_output=True, check=False)

    def within(self, *command: str) -> None:
        run("ip", "netns", "exec", self.name, *command)

    @contextlib.contextmanager
    def is_cut_off(self) -> Iterator[None]:
        """Within the block every packet is dropped, either way."""
        for chain in ("INPUT", "OUTPUT"):
            self.within("iptables", "-A", chain, "-j", "DROP")
        try:
            yield
        finally:
            self.within("iptables", "-F")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def network() -> Iterator[Network]:
    """Skipped where this user may make none, or the tools are not there."""
    if os.geteuid() or not shutil.which("ip") or not shutil.which("iptables"):
        pytest.skip("no root, or no ip and iptables: no network can be made")
    made = Network()
    try:
        made.make()
    except subprocess.CalledProcessError as error:
        made.unmake()
        pytest.skip(f"no network can be made here: {error.stderr.decode().strip()}")
    yield made
    made.unmake()


@pytest.fixture
def arena(network: Network, arena_on: ArenaOn, start_server: StartServer) -> Arena:
    """An arena whose beats are inside, and whose server is on this host."""
    own = start_server("--bind", network.host, "--port", str(PORT), "--protected-mode", "no")
    made = arena_on(own.url)
    made.url = f"redis://{network.host}:{PORT}/0"
    made.program = (INSIDE, network.name)
    return made


@pytest.mark.fault("F13")
def test_a_partition_of_all_beats(arena: Arena, network: Network, rng: random.Random, note: Note) -> None:
    """Nobody decides while it lasts; they know within the time-out, and go on within a lease and 2 s after it."""
    arena.declare()
    arena.start(2)
    spans = [3.0] if SCALE <= 1 else [0.2, 15.0, *(rng.uniform(0.2, 15) for _ in range(rounds(1)))]
    for seconds in spans:
        arena.has_leader()
        arena.goes_on()
        told = arena.said("does not answer")
        with network.is_cut_off():
            time.sleep(seconds)
        assert arena.said("does not answer") > told or seconds < 2.5
        arena.goes_on(1, within=LEASE_SECONDS + 2)
    note(len(spans), arena.finish(), max(spans))


@pytest.mark.fault("F13")
def test_a_partition_between_the_leader_and_the_rest(arena: Arena, network: Network, note: Note) -> None:
    """A standby on the right side leads within a lease and a second; the old leader comes back as standby."""
    arena.declare()
    arena.start()
    arena.has_leader()
    arena.program, arena.url = RQBEAT, arena.direct
    for cut in range(1, rounds(1) + 1):
        arena.start()
        arena.beats[-1].says("now standby")
        arena.goes_on()
        with network.is_cut_off():
            wait_for(lambda: arena.leader() is arena.beats[-1], LEASE_SECONDS + 1.5, "the standby leads")
            arena.goes_on()
        wait_for(lambda: arena.beats[0].text.count("; standby") == cut, 8, "the old leader hears of it")  # noqa: B023 - called here
        _hand_back(arena)
    verdict = arena.finish()
    assert verdict.gap <= LEASE_SECONDS + 1
    note(rounds(1), verdict)


def _hand_back(arena: Arena) -> None:
    """The beat inside leads again: the others are told to stop."""
    for beat in arena.beats[1:]:
        assert beat.terminate() == 0
    del arena.beats[1:]
    wait_for(lambda: arena.leader() is arena.beats[0], 8, "the beat inside leads again")
