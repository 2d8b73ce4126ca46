"""What a person has typed wrong, and what an hour without a beat comes to."""

from __future__ import annotations

import contextlib
import logging
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.beat import Beat
from scheduler.bell import Bell
from scheduler.leader import Leader
from scheduler.memory import MemoryStore
from scheduler.report import BeatReport
from scheduler.simulation import VirtualClock
from scheduler.triggers import IntervalTrigger
from tests.chaos.arena import Arena

NOON = 1_700_049_600_000
SECRET = "S3CR3T-p4ss"  # noqa: S105 - it opens nothing


@pytest.mark.fault("F58")
@pytest.mark.parametrize(
    ("url", "code", "words"),
    [
        (f"redis//:{SECRET}@127.0.0.1:6379/0", 2, "Redis URL"),
        (f"http://:{SECRET}@127.0.0.1:6379/0", 2, "Redis URL"),
        (f"redis://:{SECRET}@127.0.0.1:port/0", 2, "Redis URL"),
        (f"redis://:{SECRET}@no-such-host.invalid:6379/0", None, "waiting for Redis at redis://:***@no-such-host"),
        (f"redis://:{SECRET}@127.0.0.1:1/0", None, "waiting for Redis at redis://:***@127.0.0.1:1/0"),
        (f"redis+sentinel://:{SECRET}@127.0.0.1:1/mymaster", None, "waiting for Redis"),
        (f"redis+sentinel://:{SECRET}@", 2, "Redis URL"),
        (f"redis+sentinel://:{SECRET}@127.0.0.1:port/mymaster", 2, "Redis URL"),
        (f"redis://:a#{SECRET}@127.0.0.1:6379/0", 2, "Redis URL"),
        (f"redis://:{SECRET}/b@127.0.0.1:6379/0", 2, "%2F"),
        (f"redis://127.0.0.1:port/0?password={SECRET}", 2, "Redis URL"),
    ],
)
def test_a_url_that_leads_nowhere(arena: Arena, url: str, code: int | None, words: str) -> None:
    """A URL that is none ends the start; a place where nobody answers is waited for. The secret is in no line."""
    arena.declare()
    beat = arena.beat(url)
    beat.says(words)
    assert code in (None, beat.ends(5) if code else None)
    beat.process.terminate()
    beat.ends(5)
    _is_clean(beat.text)


@pytest.fixture
def tls_port(tmp_path: Path) -> Iterator[int]:
    """Where a server shakes hands with a certificate that nobody has signed. Skipped without openssl."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl: no certificate can be made")
    key, certificate = str(tmp_path / "key.pem"), str(tmp_path / "certificate.pem")
    made = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "2"]
    subprocess.run(["openssl", *made, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_shake_hands, args=(listener, context), daemon=True).start()
        yield listener.getsockname()[1]


def _shake_hands(listener: socket.socket, context: ssl.SSLContext) -> None:
    while listener.fileno() >= 0:
        with contextlib.suppress(OSError), listener.accept()[0] as near:
            context.wrap_socket(near, server_side=True).close()


@pytest.mark.fault("F58")
def test_a_certificate_that_is_not_trusted(arena: Arena, tls_port: int) -> None:
    arena.declare()
    beat = arena.beat(f"rediss://:{SECRET}@localhost:{tls_port}/0")
    assert beat.ends() == 2
    assert "TLS with Redis fails" in beat.text
    assert "certificate verify failed" in beat.text
    assert len(beat.text.splitlines()) == 1
    _is_clean(beat.text)


@pytest.mark.fault("F58")
def test_a_wrong_password(arena: Arena, tmp_path: Path) -> None:
    arena.declare()
    arena.client.config_set("requirepass", "another")
    try:
        beat = arena.beat(arena.direct.replace("unix://", f"unix://:{SECRET}@"))
        assert beat.ends() == 2
    finally:
        arena.client.config_set("requirepass", "")
    assert "refuses the user name or password" in beat.text
    assert len(beat.text.splitlines()) == 1
    _is_clean(beat.text)


def _is_clean(text: str) -> None:
    assert SECRET not in text
    assert "Traceback" not in text


@pytest.mark.fault("F34")
def test_an_hour_without_a_beat(arena: Arena, caplog: pytest.LogCaptureFixture) -> None:
    """A one-second schedule with a catch-up limit of 100: 100 enqueued, one range of 3,500, one line about it."""
    arena.options["catchup_limit"] = 100
    clock = VirtualClock(NOON)
    store = MemoryStore(clock)
    store.add(arena.tick(0, IntervalTrigger(1)))
    clock.elapsed += 3_600_000
    with caplog.at_level(logging.WARNING, logger="rqbeat.beat"):
        _turns(store, clock, 3)
    outcomes: dict[tuple[str, str], int] = {}
    for entry in store.firing.ledger:
        key = (entry.outcome, entry.reason)
        outcomes[key] = outcomes.get(key, 0) + entry.count
    assert outcomes == {("enqueued", ""): 100, ("missed", "limit"): 3500}
    assert len([entry for entry in store.firing.ledger if entry.outcome == "missed"]) == 1
    assert len([record for record in caplog.records if "missed" in record.getMessage()]) == 1


def _turns(store: MemoryStore, clock: VirtualClock, count: int) -> None:
    published: list[Any] = []
    beat = Beat(
        timetable=store,
        leader=Leader(store.lease, "tester", clock),
        clock=clock,
        bell=Bell(),
        observer=BeatReport(published.append),
    )
    for _ in range(count):
        beat.turn()
