"""The commands from outside: what they print, how they end, what they say when they can't."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from shared.keys import Keys
from tests.integration.conftest import Spawn, wait_for

APP = """
class Report(Job):
    queue = "reports"
    def handle(self, region="eu"): ...
scheduler.schedule(Report, CronTrigger("0 6 * * *", timezone="Europe/Paris"), id="daily-report",
                   kwargs={"region": "us"}, tags=["daily"])
scheduler.schedule(Report, IntervalTrigger(1), id="often", overlap="allow")
"""
LIST_KEYS = {
    *("id", "name", "status", "trigger", "trigger_type", "timezone", "job", "queue"),
    *("next_fire", "last_fire", "runs", "errors", "tags", "owner"),
}
INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z")


@pytest.fixture
def running(spawn: Spawn, app: Callable[[str], str], redis_url: str) -> str:
    """The URL of a Redis on which a beat runs an app."""
    spawn("run", app(APP), "--url", redis_url).says("now leader")
    return redis_url


def test_list_has_the_fixed_keys(spawn: Spawn, running: str) -> None:
    rows = {row["id"]: row for row in spawn("list", "--json", "--url", running).json()["schedules"]}
    daily = rows["daily-report"]
    assert set(daily) >= LIST_KEYS
    assert (daily["timezone"], daily["queue"], daily["job"], daily["tags"]) == (
        "Europe/Paris",
        "reports",
        "app.Report",
        ["daily"],
    )
    assert INSTANT.fullmatch(daily["next_fire"])
    assert (daily["last_fire"], daily["owner"]) == (None, "app")


def test_show_adds_policies_next_fires_and_history(spawn: Spawn, running: str) -> None:
    shown = spawn("show", "often", "--json", "--url", running).json()
    assert shown["policies"]["misfire"] == "latest"
    assert len(shown["next_fires"]) == 5
    assert isinstance(shown["history"], list)


def test_history_has_the_fixed_keys(spawn: Spawn, running: str) -> None:
    def entries() -> Any:
        return spawn("history", "often", "--json", "-n", "2", "--url", running).json()["entries"]

    (entry, *_) = wait_for(entries, 10, "an entry")
    fixed = ["schedule", "nominal", "until", "count", "decided", "outcome", "reason", "kind", "job_id", "lateness_ms"]
    assert list(entry) == fixed
    assert (entry["outcome"], entry["kind"], entry["reason"], entry["count"]) == ("enqueued", "scheduled", None, 1)


def test_fire_enqueues_one_job_now(spawn: Spawn, running: str, client: redis.Redis, keys: Keys) -> None:
    fired = spawn("fire", "daily-report", "--note", "asked for", "--json", "--url", running).json()
    assert "-m" in fired["job_id"]
    assert INSTANT.fullmatch(fired["nominal"])
    assert fired["job_id"].encode() in client.lrange(keys.rq_queue("reports"), 0, -1)  # type: ignore[operator]
    (entry,) = spawn("history", "daily-report", "--json", "--url", running).json()["entries"]
    assert (entry["kind"], entry["job_id"]) == ("manual", fired["job_id"])


def test_pause_and_resume_name_what_changed(spawn: Spawn, running: str) -> None:
    assert spawn("pause", "often", "--json", "--url", running).json() == {"changed": ["often"]}
    assert spawn("pause", "often", "--json", "--url", running).json() == {"changed": []}
    assert spawn("schedule:resume", "often", "--json", "--url", running).json() == {"changed": ["often"]}
    assert spawn("remove", "often", "--yes", "--json", "--url", running).json() == {"changed": ["often"]}


def test_next_of_a_stored_schedule(spawn: Spawn, running: str) -> None:
    fires = spawn("next", "daily-report", "-n", "3", "--from", "2026-03-28T12:00:00Z", "--json", "--url", running)
    assert [fire["local"] for fire in fires.json()["fires"]] == [
        "2026-03-29T06:00:00+02:00",
        "2026-03-30T06:00:00+02:00",
        "2026-03-31T06:00:00+02:00",
    ]


@pytest.mark.parametrize(
    ("expression", "start", "notes"),
    [
        ("30 2 * * *", "2026-03-28T12:00:00Z", ["gap", None]),
        ("30 2 * * *", "2026-10-24T12:00:00Z", ["repeat", None]),
        ("0 3 * * *", "2026-03-28T12:00:00Z", [None, None]),
    ],
)
def test_next_marks_gaps_and_repeats(spawn: Spawn, expression: str, start: str, notes: list[str | None]) -> None:
    fires = spawn("next", "-e", expression, "--tz", "Europe/Berlin", "--from", start, "-n", "2", "--json").json()
    assert [fire["note"] for fire in fires["fires"]] == notes


@pytest.mark.parametrize("command", ["pause", "resume", "fire", "show", "history", "next"])
def test_an_unknown_schedule_is_exit_3(spawn: Spawn, running: str, command: str) -> None:
    program = spawn(command, "nothing-of-the-kind", "--url", running)
    assert program.ends() == 3
    assert "nothing-of-the-kind" in program.text


@pytest.mark.parametrize("command", [["list"], ["queues"], ["history"], ["fire", "x"], ["pause", "x"]])
def test_redis_out_of_reach_is_exit_69(spawn: Spawn, command: list[str]) -> None:
    program = spawn(*command, "--url", "redis://127.0.0.1:1/0")
    assert program.ends() == 69
    assert program.text.count("\n") == 1
    assert "Traceback" not in program.text


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lst"], "did you mean 'list'"),
        (["list", "--nonsense"], "nonsense"),
        (["next"], "ID of a schedule"),
        (["next", "-e", "61 * * * *"], "minute"),
        (["next", "-e", "* * * * *", "--tz", "Europa/Madrid"], "Europe/Madrid"),
        (["list", "--url", "http://x"], "http"),
        (["list", "--namespace", "a b"], "namespace"),
    ],
)
def test_usage_errors_are_exit_2_and_one_clear_line(spawn: Spawn, arguments: list[str], told: str) -> None:
    program = spawn(*arguments)
    assert program.ends() == 2
    assert told in program.text
    assert "Traceback" not in program.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("import nowhere_to_be_found\n", "nowhere_to_be_found"),
        ("def broken(:\n", "invalid syntax"),
        ("raise RuntimeError('at import')\n", "at import"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
        ("@scheduler.every(60)\ndef f():\n    yield 1\n", "generator"),
        ("@scheduler.cron('61 * * * *')\ndef f(): ...\n", "minute"),
        ("@scheduler.cron('0 9 * * *', timezone='Europe/Pariss')\ndef f(): ...\n", "Europe/Paris"),
        ("@scheduler.every(60, quue='x')\ndef f(): ...\n", "did you mean 'queue'"),
        ("del scheduler\n", "no 'scheduler'"),
        ("scheduler = 3\n", "int"),
    ],
)
@pytest.mark.parametrize("command", ["check", "run"])
def test_a_bad_app_is_one_clear_line(
    spawn: Spawn, app: Callable[[str], str], body: str, told: str, command: str
) -> None:
    program = (
        spawn(command, app(body), "--url", "redis://127.0.0.1:1/0") if command == "run" else spawn(command, app(body))
    )
    assert program.ends() == (2 if command == "run" else 1)
    assert told in program.text
    assert "Traceback" not in program.text


def test_check_reports_every_error_at_once(spawn: Spawn, app: Callable[[str], str]) -> None:
    spec = app(
        "@scheduler.cron('61 * * * *')\ndef first(): ...\n"
        "@scheduler.every(60)\ndef good(): ...\n"
        "@scheduler.every(0)\ndef second(): ...\n"
    )
    program = spawn("check", spec, "--json")
    assert program.ends() == 1
    found = json.loads(program.text)
    assert (found["ok"], found["schedules"], len(found["errors"])) == (False, 1, 2)
    assert all("app.py:" in error["where"] for error in found["errors"])


def test_run_once_decides_what_is_due_and_ends(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys
) -> None:
    spec = app("@scheduler.every(1, id='s', misfire='all', overlap='allow')\ndef s(): ...\n")
    assert spawn("run", spec, "--once", "--url", redis_url).ends() == 0
    client.hset(keys.schedule_prefix + "s", "cursor", int(time.time() - 3) * 1000)
    client.zadd(keys.timetable, {"s": int(time.time() - 2) * 1000})
    dry = spawn("run", spec, "--dry-run", "--url", redis_url)
    assert dry.ends() == 0
    assert dry.text.count("enqueue") >= 3
    assert client.llen(keys.rq_queue("default")) == 0
    assert spawn("run", spec, "--once", "--url", redis_url).ends() == 0
    assert client.llen(keys.rq_queue("default")) >= 3
    spawn("run", spec, "--url", redis_url).says("now leader")
    second = spawn("run", spec, "--once", "--url", redis_url)
    assert second.ends() == 1
    assert "another beat leads" in second.text


def test_check_warns_of_what_may_surprise(spawn: Spawn, app: Callable[[str], str]) -> None:
    spec = app(
        "import time\n"
        "@scheduler.cron('*/90 * * * *', id='wide')\ndef wide(): ...\n"
        "@scheduler.every(60, id='many', misfire='all')\ndef many(): ...\n"
        "def soon(): ...\n"
        "scheduler.schedule(soon, DateTrigger(time.time() + 300), id='soon')\n"
    )
    found = spawn("check", spec, "--json").json()
    told = {warning["where"]: warning["message"] for warning in found["warnings"]}
    assert (found["ok"], found["errors"], set(told)) == (True, [], {"schedule wide", "schedule many", "schedule soon"})
    assert "wider" in told["schedule wide"]
    assert "differs from one import" in told["schedule soon"]


def test_health_is_exit_5_where_nobody_is(spawn: Spawn, redis_url: str) -> None:
    for role in ("beat", "worker"):
        assert spawn("health", "--role", role, "--url", redis_url).ends() == 5
    assert spawn("health", "--role", "redis", "--url", "redis://127.0.0.1:1/0").ends() == 5
    assert spawn("health", "--role", "redis", "--url", redis_url).ends() == 0


def test_health_of_a_beat_that_was_killed_turns_bad(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys
) -> None:
    """miss-loop-dead-process-alive: a frozen beat is unhealthy within fifteen seconds; here its record is aged."""
    beat = spawn("run", app(APP), "--url", redis_url)
    beat.says("now leader")
    assert spawn("health", "--role", "beat", "--url", redis_url).ends() == 0
    beat.kill()
    (record,) = client.scan_iter(keys.presence("beat", "*"))
    client.hset(record, "at", int(time.time() * 1000) - 16_000)
    assert spawn("health", "--role", "beat", "--url", redis_url).ends() == 5


def test_queues_counts_without_moving_anything(spawn: Spawn, redis_url: str, client: redis.Redis, keys: Keys) -> None:
    """An expired entry of the started registry is still there after it was counted."""
    client.sadd(keys.rq_queues, keys.rq_queue("work"))
    client.zadd(keys.rq_registry("wip", "work"), {"gone:1": 1})
    client.rpush(keys.rq_taken("work"), "taken")
    client.rpush(keys.rq_queue("work"), "a", "b")
    (queue,) = spawn("queues", "--json", "--url", redis_url).json()["queues"]
    assert (queue["depth"], queue["taken"], queue["running"], queue["workers"]) == (2, 1, 1, 0)
    assert client.zcard(keys.rq_registry("wip", "work")) == 1


def test_queues_survive_a_key_of_the_wrong_type(spawn: Spawn, redis_url: str, client: redis.Redis, keys: Keys) -> None:
    client.sadd(keys.rq_queues, keys.rq_queue("bad"), keys.rq_queue("good"))
    client.set(keys.rq_queue("bad"), "text")
    client.rpush(keys.rq_queue("good"), "a")
    depths = {queue["name"]: queue["depth"] for queue in spawn("queues", "--json", "--url", redis_url).json()["queues"]}
    assert depths == {"bad": 0, "good": 1}


def test_readers_show_junk_by_name_and_give_no_traceback(
    spawn: Spawn, running: str, client: redis.Redis, keys: Keys
) -> None:
    record = keys.presence("beat", f"{socket.gethostname()}:1")
    client.hset(record, mapping={"host": socket.gethostname(), "at": "junk", "state": b"\xff"})
    client.zadd(keys.presences("beat"), {f"{socket.gethostname()}:1": 9e9})
    client.set(keys.ledger_prefix + "daily-report", "text")
    client.sadd(keys.schedules, "bad", b"\xff")
    client.set(keys.schedule_prefix + "bad", "text")
    client.sadd(keys.rq_queues, keys.rq_queue("junk"))
    client.set(keys.rq_taken("junk"), "text")
    commands = {"list": 0, "show bad": 0, "history daily-report": 0, "queues": 0, "health --role beat": 0, "doctor": 5}
    for command, code in commands.items():
        program = spawn(*command.split(), "--url", running)
        assert (program.ends(), "Traceback" in program.text) == (code, False), program.text
    assert all(told in program.text for told in ("schedule bad", "ledger of daily-report", "queue junk"))


def test_a_schedule_key_of_a_wrong_type_keeps_no_beat_from_its_start(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys
) -> None:
    client.sadd(keys.schedules, "other", b"\xff")
    client.set(keys.schedule_prefix + "other", "text")
    spawn("run", app(APP), "--url", redis_url).says("now leader")
    wait_for(lambda: client.exists(keys.schedule_prefix + "often"), 10, "the app's own schedules")


COMMAND = f"{sys.executable} -P -m scheduler.cli"


def shell(line: str, folder: Path) -> tuple[int, bytes]:
    """The exit code of a line of bash, and what went to stderr."""
    ended = subprocess.run(["bash", "-c", line], cwd=folder, stderr=subprocess.PIPE, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("version >/dev/full", b"No space left"),
        ("version --json >/dev/full", b"No space left"),
        ("list --help >/dev/full", b"No space left"),
        ("version >&-", b"can't be written"),
    ],
)
def test_an_output_that_takes_nothing_is_exit_1_and_one_line(tmp_path: Path, line: str, told: bytes) -> None:
    code, errors = shell(f"{COMMAND} {line}", tmp_path)
    assert (code, errors.count(b"\n"), told in errors) == (1, 1, True), errors


def test_a_closed_output_harms_no_command_that_prints_nothing(tmp_path: Path) -> None:
    code, errors = shell(f"{COMMAND} show x --url redis://127.0.0.1:1/0 >&-", tmp_path)
    assert (code, errors.count(b"\n")) == (69, 1)


@pytest.mark.parametrize("line", ["explain '* * * * *'", "next -e '* * * * *' -n 20000 --json", "list --help"])
def test_a_reader_that_leaves_is_silent_and_exit_0(tmp_path: Path, line: str) -> None:
    assert shell(f"{COMMAND} {line} | true; exit ${{PIPESTATUS[0]}}", tmp_path) == (0, b"")


@pytest.mark.parametrize(
    "arguments",
    ["show $'\\xff'", "pause ok --note $'\\xff'", "list --url $'redis://\\xff'", "worker $'\\xff'", "$'\\xff'"],
)
def test_arguments_that_are_no_text_are_exit_2_and_one_line(tmp_path: Path, arguments: str) -> None:
    code, errors = shell(f"{COMMAND} {arguments}", tmp_path)
    assert (code, errors.count(b"\n"), b"not UTF-8" in errors) == (2, 1, True), errors


@pytest.mark.parametrize(
    "arguments", ["", "list", "next -e '* * * * *' --from", "next -n", "list --url", "check", "history --outcome"]
)
def test_a_huge_argument_is_not_repeated_whole(tmp_path: Path, arguments: str) -> None:
    code, errors = shell(f"{COMMAND} {arguments} \"$(printf 'x%.0s' {{1..100000}})\"", tmp_path)
    assert (code in {1, 2}, len(errors) < 2000) == (True, True)


def test_a_folder_with_our_names_is_told_apart(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    """A user's own `shared/` and `worker.py` beside the app: exit 2, and the intruder is named."""
    spec = app(APP)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "__init__.py").write_text("")
    (tmp_path / "worker.py").write_text("")
    for command in (["check", spec], ["run", spec, "--url", "redis://127.0.0.1:1/0"], ["worker", "--app", spec]):
        program = spawn(*command)
        assert program.ends() in {1, 2}
        assert str(tmp_path) in program.text
        assert "Traceback" not in program.text


def test_version_names_what_it_stands_on(spawn: Spawn) -> None:
    assert {"rqbeat", "rq", "redis"} <= set(spawn("version", "--json").json())
