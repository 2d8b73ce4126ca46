"""`rqbeat dev`: everything in one terminal, and nothing left when it ends."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.conftest import Program, Spawn, wait_for

LIVELY = """
@scheduler.every(1)
def tick():
    print("tock", flush=True)
@scheduler.cron("* * * * *", queue="slow")
async def minute(): ...
"""
needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")


def descendants(mark: str) -> set[int]:
    """Every process whose environment holds a mark: what a program started, however deep, whoever adopted it."""
    found = set()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            environ, state = (folder / "environ").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        if mark.encode() in environ and ") Z " not in state:
            found.add(int(folder.name))
    return found


@pytest.fixture
def dev(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> tuple[Program, str, str]:
    """A running `rqbeat dev` whose job has run, the URL of its server, and its mark."""
    mark = f"RQTEST_MARK={tmp_path.name}"
    program = spawn("dev", app(LIVELY), RQTEST_MARK=tmp_path.name)
    program.says("tock", 30)
    url = re.findall(r"(?:redis|unix)://\S+", wait_for(lambda: program.text, 5, "text"))
    program.says("Ctrl-C ends all")
    shown = re.search(r"rqbeat dev · (\S+)", program.text)
    assert shown, url
    return program, shown[1], mark


@needs_proc
@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_when_it_ends(dev: tuple[Program, str, str], sig: signal.Signals) -> None:
    program, _, mark = dev
    assert len(descendants(mark)) >= 7  # itself, server, beat, supervisor and two workers for each of two queues
    os.kill(program.process.pid, sig)
    code = program.ends(12)
    assert code == (-9 if sig == signal.SIGKILL else 0)
    wait_for(lambda: not descendants(mark), 5, "the end of every process")


def test_jobs_are_fired_and_finished_and_another_terminal_sees_them(
    spawn: Spawn, dev: tuple[Program, str, str]
) -> None:
    program, url, _ = dev
    program.says("finished")
    names = {queue["name"]: queue for queue in spawn("queues", "--json", "--url", url).json()["queues"]}
    assert names["default"]["finished"] >= 1
    assert names["default"]["workers"] == 2
    (tick,) = [item for item in spawn("list", "--json", "--url", url).json()["schedules"] if "tick" in item["id"]]
    assert (tick["status"], tick["trigger_type"], tick["runs"] >= 1) == ("active", "interval", True)
    for role in ("beat", "worker", "redis"):
        assert spawn("health", "--role", role, "--json", "--url", url).json()["ok"]


def test_a_second_one_in_the_same_folder_is_refused(spawn: Spawn, dev: tuple[Program, str, str]) -> None:
    second = spawn("dev", "app:scheduler")
    assert second.ends() == 2
    assert "another `rqbeat dev` runs" in second.text


def test_a_pause_outlives_a_restart_of_everything(
    spawn: Spawn, app: Callable[[str], str], dev: tuple[Program, str, str]
) -> None:
    program, url, _ = dev
    assert spawn("pause", "app.tick", "--url", url).ends() == 0
    assert program.terminate() == 0
    again = spawn("dev", "app:scheduler")
    again.says("paused", 30)
    assert "app.tick: " not in again.text


def test_a_bad_app_starts_nothing(spawn: Spawn) -> None:
    program = spawn("dev", "nothing:scheduler")
    assert program.ends() == 2
    assert "no module 'nothing'" in program.text
