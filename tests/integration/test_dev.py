"""`rqbeat dev`: everything in one terminal, and nothing left when it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import scheduler.cli.dev as dev_command
from shared.clock import SystemClock
from shared.redisio.connection import connect
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
    program.says("tock", seconds=30)
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
    again.says("paused", seconds=30)
    assert "app.tick: " not in again.text


def test_a_bad_app_starts_nothing(spawn: Spawn) -> None:
    program = spawn("dev", "nothing:scheduler")
    assert program.ends() == 2
    assert "no module 'nothing'" in program.text


SLOW = """
import time
@scheduler.every(1, id="long")
def long():
    print("begun", flush=True)
    time.sleep(100)
"""


def test_lines_outlive_it_in_a_file_without_escape_codes(
    spawn: Spawn, app: Callable[[str], str], tmp_path: Path
) -> None:
    program = spawn("dev", app('@scheduler.every(1)\ndef loud():\n    print("\\x1b[31m漢字\\x1b[2J", flush=True)'))
    program.says("worker | 漢字\n", seconds=30)
    assert program.terminate() == 0
    assert ".rqbeat/dev.log" in program.text.splitlines()[-1]
    written = (tmp_path / ".rqbeat" / "dev.log").read_text()
    assert "worker | 漢字\n" in written
    assert "rqbeat.beat: now leader" in written


def test_its_url_is_found_in_the_folder_while_it_runs(dev: tuple[Program, str, str], tmp_path: Path) -> None:
    program, url, _ = dev
    note = tmp_path / ".rqbeat" / "url"
    assert note.read_text().strip() == url
    assert program.terminate() == 0
    assert not note.exists()


def test_a_url_left_by_one_that_was_killed_is_no_other_server(
    spawn: Spawn, app: Callable[[str], str], dev: tuple[Program, str, str]
) -> None:
    program, _, _ = dev
    program.kill()
    again = spawn("dev", "app:scheduler")
    again.says("now leader", seconds=30)
    assert again.terminate() == 0


def test_each_app_has_data_of_its_own(spawn: Spawn, app: Callable[[str], str], dev: tuple[Program, str, str]) -> None:
    program, _, _ = dev
    assert program.terminate() == 0
    other = spawn("dev", app('@scheduler.every(1, id="only")\ndef f(): ...', "other"))
    other.says("declared: 1 added\n", seconds=30)
    assert other.terminate() == 0


def test_a_second_signal_ends_the_wait_for_running_jobs(spawn: Spawn, app: Callable[[str], str]) -> None:
    program = spawn("dev", app(SLOW))
    program.says("begun", seconds=30)
    os.kill(program.process.pid, signal.SIGINT)
    program.says("waiting up to 10 s for running jobs", seconds=2)
    ends = time.monotonic() + 5
    while "killed: worker" not in program.text and time.monotonic() < ends:
        os.kill(program.process.pid, signal.SIGINT)  # the first one may come too soon to be meant
        time.sleep(0.1)
    assert program.ends(3) == 0


def test_a_server_that_dies_ends_it_with_one_line(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    program = spawn("dev", app(LIVELY))
    program.says("tock", seconds=30)
    url = (tmp_path / ".rqbeat" / "url").read_text().strip()
    with connect(url) as client:
        os.kill(int(client.info("server")["process_id"]), signal.SIGKILL)
    assert program.ends(15) == 1
    assert "the server ended with code -9; its log is .rqbeat/data/" in program.text.splitlines()[-1]


def test_the_last_words_of_a_worker_that_ends_are_told(spawn: Spawn, app: Callable[[str], str]) -> None:
    program = spawn("dev", app("import sys\nif 'worker' in sys.argv: sys.exit('a bad day')\n"))
    assert program.ends(30) == 1
    assert re.search(r"the worker ended with code \d+:\n(.*\n)*worker \| .*a bad day", program.text)


def test_a_reader_that_goes_away_ends_it_quietly(app: Callable[[str], str], tmp_path: Path) -> None:
    with (tmp_path / "errors").open("w+") as errors:
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", "scheduler.cli", "dev", app(LIVELY)],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
        assert program.stdout
        program.stdout.readline()
        program.stdout.close()
        assert program.wait(20) == 0
        errors.seek(0)
        assert errors.read() == ""


def test_a_port_that_is_taken_in_the_last_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that start together find the same port free; the later one takes another."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        found = iter([other.getsockname()[1], dev_command._if_free(0)])
        monkeypatch.setattr(dev_command, "_free_port", lambda: next(found))
        with tempfile.TemporaryDirectory(prefix="rqbeat-") as nook:
            own = dev_command._started(tmp_path, Path(nook) / "redis.sock", SystemClock())
            with connect(own.url) as client:
                assert client.ping()
            own.stop()
