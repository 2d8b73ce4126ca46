"""The switch that kills a beat on purpose: off unless named, and a typing error is no silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scheduler.failpoint import POINTS, kill_at, nothing
from shared.errors import ConfigurationError
from shared.settings import load


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, signum: found.append(signum))
    return found


def test_unnamed_it_does_nothing() -> None:
    assert kill_at(None) is kill_at("") is nothing


def test_it_kills_at_its_point_alone(kills: list[int]) -> None:
    reached = kill_at("after-plan")
    for point in POINTS[: POINTS.index("after-plan")]:
        reached(point)
    assert kills == []
    reached("after-plan")
    assert kills == [9]


def test_it_kills_at_the_nth_time(kills: list[int]) -> None:
    reached = kill_at("waiting:3")
    reached("waiting")
    reached("after-due")
    reached("waiting")
    assert kills == []
    reached("waiting")
    assert kills == [9]


@pytest.mark.parametrize("wrong", ["after-comit", "waiting:x", "waiting:-1", "waiting:0", "lunch"])
def test_a_point_that_there_is_not_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=r"RQBEAT_FAILPOINT: .*(did you mean|there are)"):
        kill_at(wrong)


def test_it_comes_from_the_environment_and_never_from_a_file(tmp_path: Path) -> None:
    assert load(environ={"RQBEAT_FAILPOINT": "waiting"}, folder=tmp_path).failpoint == "waiting"
    (tmp_path / "rqbeat.toml").write_text('failpoint = "waiting"\n')
    with pytest.raises(ConfigurationError, match="unknown setting failpoint"):
        load(environ={}, folder=tmp_path)
