"""The example app under real load and real kills: beats, workers and servers are processes of their own."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import redis

from shared.clock import SystemClock
from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from shared.redisio.server import OwnServer
from tests.integration.conftest import Program, Spawn, wait_for

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES))

from reminders import admin  # noqa: E402 - the example's folder had to be named first
from reminders.domain import Workshop, send_by  # noqa: E402
from reminders.jobs import SendReminder, open_mailer, open_store  # noqa: E402
from reminders.mailer import is_busy_at_first  # noqa: E402

APP = "reminders.app:scheduler"
SCAN = "scan-workshops"


class Installation:
    """The app at work: its data in a folder of the test's own, its processes on the test's Redis."""

    def __init__(self, spawn: Spawn, url: str, data: Path) -> None:
        self._spawn = spawn
        self.url = url
        self._environ = {"RQBEAT_REDIS_URL": url, "DATA_DIR": str(data)}
        self.store, self.mailer = open_store(), open_mailer()

    def start(self, *arguments: str, **more: Any) -> Program:
        return self._spawn(*arguments, **{"folder": EXAMPLES, **self._environ, **more})

    def start_beat(self) -> Program:
        beat = self.start("run", APP)
        beat.says("now leader")
        return beat

    def start_worker(self, *arguments: str) -> Program:
        return self.start("worker", *arguments, "--app", APP)

    def scan(self) -> None:
        """Have the coordinator look now, besides its schedule."""
        self.start("fire", SCAN).ends()

    def seed(self, starts_in: timedelta, attendees: int) -> Workshop:
        return admin.seed(self.store, now(), starts_in, attendees)

    def standings(self, workshop: Workshop) -> Counter[Any]:
        return admin.standings(self.store, workshop, now())

    def queue(self, name: str) -> dict[str, Any]:
        rows = self.start("queues", "--json").json()["queues"]
        return next((row for row in rows if row["name"] == name), {})


@pytest.fixture
def reminders(spawn: Spawn, redis_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    return Installation(spawn, redis_url, tmp_path / "data")


def now() -> datetime:
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)


@pytest.mark.timeout(240)
def test_400_attendees_get_one_mail_each_though_sends_fail_and_workers_are_killed(reminders: Installation) -> None:
    workshop = reminders.seed(timedelta(minutes=45), 400)
    reminders.start_beat()
    worker = reminders.start_worker("-n", "2")
    reminders.scan()

    wait_for(lambda: len(reminders.mailer.deliveries()) > 40, 60, "the first mails")
    os.kill(wait_for(lambda: process_at_work(worker), 10, "a worker process with a run"), signal.SIGKILL)
    reminders.scan()
    wait_for(lambda: len(reminders.mailer.deliveries()) > 150, 60, "mails after the first kill")
    wait_for(lambda: process_at_work(worker), 10, "a worker process with a run")
    worker.kill()  # and everything below it
    reminders.start_worker("-n", "2")

    wait_for(lambda: reminders.standings(workshop) == {"sent": 400}, 150, "every reminder sent")
    wait_for(lambda: reminders.queue("reminders")["finished"] == 400, 30, "every job finished")
    mails = reminders.mailer.deliveries()
    assert Counter(key for key, _ in mails) == dict.fromkeys(keys_of(reminders, workshop), 1)
    assert max(at for _, at in mails) <= send_by(workshop).timestamp()
    assert reminders.queue("reminders")["failed"] == 0
    assert is_busy_when_it_should_be(reminders)


def test_a_reminder_past_its_deadline_is_dropped_and_shown_as_expired(reminders: Installation) -> None:
    reminders.start_beat()
    reminders.start_worker("default")
    workshop = reminders.seed(send_by_in(timedelta(seconds=SendReminder.timeout + 3)), 5)
    reminders.scan()
    wait_for(lambda: reminders.queue("reminders").get("depth") == 5, 10, "five reminders handed over")
    last_start = send_by(workshop) - timedelta(seconds=SendReminder.timeout)
    wait_for(lambda: now() > last_start, 10, "their last moment to start")

    reminders.start_worker("reminders")

    wait_for(lambda: reminders.queue("reminders")["expired"] == 5, 15, "five expired")
    assert reminders.mailer.calls() == []
    assert admin.standings(reminders.store, workshop, workshop.starts_at) == {"missed": 5}


def test_a_job_dispatches_to_the_redis_that_its_worker_serves(reminders: Installation) -> None:
    workshop = reminders.seed(timedelta(minutes=45), 3)
    reminders.start_beat()
    reminders.start("worker", "--app", APP, "--url", reminders.url, RQBEAT_REDIS_URL="redis://127.0.0.1:1/0")
    reminders.scan()
    wait_for(lambda: reminders.standings(workshop) == {"sent": 3}, 20, "all sent")


def test_a_replay_is_a_plain_call_that_queues_what_was_not_sent(
    reminders: Installation, client: redis.Redis, keys: Keys
) -> None:
    workshop = reminders.seed(timedelta(minutes=45), 3)
    with using_outbox(RedisOutbox(client, keys)):
        assert admin.replay(reminders.store, workshop.id) == 3
        assert admin.replay(reminders.store, workshop.id) == 0, "its jobs are still queued"
        reminders.start_worker("reminders")
        wait_for(lambda: reminders.standings(workshop) == {"sent": 3}, 20, "all sent")
        assert admin.replay(reminders.store, workshop.id) == 0
    assert len(reminders.mailer.deliveries()) == 3


@pytest.fixture
def own_server() -> Iterator[OwnServer]:
    """A server that writes every command down before it answers."""
    with tempfile.TemporaryDirectory(prefix="rqbeat-") as folder:  # short: a socket's path has about 100 characters
        own = OwnServer(Path(folder), options=("--appendonly", "yes", "--appendfsync", "always"))
        own.start()
        yield own
        own.kill()


QUICK = """
from scheduler import SchedulerManager
from reminders.jobs import ScanWorkshops
scheduler = SchedulerManager()
scheduler.every(1, id="scan-workshops")(ScanWorkshops)
scheduler.every(1, id="witness")(ScanWorkshops)
"""


class QuickInstallation(Installation):
    """The same with a scan each second, and another schedule beside it that shows that time passes."""

    def __init__(self, spawn: Spawn, url: str, folder: Path) -> None:
        super().__init__(spawn, url, folder / "data")
        (folder / "quick.py").write_text(QUICK)
        self._folder = folder

    def start(self, *arguments: str, **more: Any) -> Program:
        return super().start(*arguments, folder=self._folder, PYTHONPATH=str(EXAMPLES), **more)

    def start_everything(self) -> list[Program]:
        return [self.start("run", "quick:scheduler"), self.start("worker", "--app", "quick:scheduler")]

    def fires(self, schedule: str) -> list[str]:
        entries = self.start("history", schedule, "-n", "1000", "--json").json()["entries"]
        return [entry["nominal"] for entry in entries if entry["outcome"] == "enqueued"]


def test_a_paused_schedule_stays_paused_over_a_restart_of_everything(
    own_server: OwnServer, spawn: Spawn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    reminders = QuickInstallation(spawn, own_server.url, tmp_path)
    everything = reminders.start_everything()
    everything[0].says("now leader")
    wait_for(lambda: len(reminders.fires(SCAN)) >= 2, 20, "the first scans")
    assert reminders.start("pause", SCAN, "--note", "the mailer is on holiday").ends() == 0
    before, witnessed = reminders.fires(SCAN), len(reminders.fires("witness"))

    for program in everything:
        program.kill()
    own_server.kill()
    own_server.start()
    reminders.start_everything()

    wait_for(lambda: len(reminders.fires("witness")) >= witnessed + 3, 20, "the other schedule's fires")
    assert reminders.fires(SCAN) == before
    rows = reminders.start("list", "--json").json()["schedules"]
    assert {row["id"]: row["status"] for row in rows} == {SCAN: "paused", "witness": "active"}
    assert reminders.start("resume", SCAN).ends() == 0
    wait_for(lambda: len(reminders.fires(SCAN)) > len(before), 10, "scans after the resume")


def process_at_work(worker: Program) -> int | None:
    """A process of `rqbeat worker` that has a run in hand just now."""
    return next((pid for pid in children(worker.process.pid) if children(pid)), None)


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def keys_of(reminders: Installation, workshop: Workshop) -> list[str]:
    return [reminder.key for reminder, _ in reminders.store.reminders(workshop)]


def is_busy_when_it_should_be(reminders: Installation) -> bool:
    """Whether the mail service was busy exactly once for one key in ten, and those were asked again."""
    busy = Counter(key for key, outcome in reminders.mailer.calls() if outcome == "busy")
    expected = [key for key, _ in reminders.mailer.deliveries() if is_busy_at_first(key)]
    return len(expected) > 20 and busy == dict.fromkeys(expected, 1)


def send_by_in(delay: timedelta) -> timedelta:
    """How far away the start of a workshop is whose reminders must have been sent after `delay`."""
    at = datetime.fromtimestamp(0, UTC)
    return delay + (at - send_by(Workshop(id="w", title="", starts_at=at)))
