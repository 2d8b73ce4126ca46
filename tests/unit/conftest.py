"""Unit tests take no sleep, no socket and no real clock: reaching for one fails the test."""

from __future__ import annotations

import socket
import time

import pytest


def _refuse(*_args: object, **_kwargs: object) -> None:
    raise AssertionError("a unit test reached for a socket or a sleep")


@pytest.fixture(autouse=True)
def _no_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket.socket, "connect", _refuse)
    monkeypatch.setattr(time, "sleep", _refuse)
