"""The beat as a process, on a real server: alone, in company, and in trouble."""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import redis

from scheduler.admin import Admin
from scheduler.ports import LedgerEntry
from scheduler.readers import Reader
from scheduler.triggers import IntervalTrigger
from shared.clock import SystemClock
from shared.keys import Keys
from shared.redisio.connection import connect
from shared.redisio.scripts import source
from shared.redisio.server import OwnServer
from tests.integration.conftest import Spawn, wait_for

SECONDS = float(os.environ.get("RQTEST_SECONDS", "12"))

EVERY_SECOND = """
class Tick(Job):
    def handle(self): ...
scheduler.schedule(Tick, IntervalTrigger(1), id="tick", overlap="allow")
"""
FIFTY = """
class Tick(Job):
    def handle(self, n): ...
for n in range(50):
    scheduler.schedule(Tick, IntervalTrigger(5), id=f"tick-{n}", args=[n], overlap="allow")
"""


@pytest.fixture
def reader(client: redis.Redis, keys: Keys) -> Reader:
    return Reader(client, keys)


def enqueued(reader: Reader, schedule_id: str | None = None) -> list[LedgerEntry]:
    return reader.history(schedule_id, "enqueued", most=100_000)


def queued(client: redis.Redis, keys: Keys, queue: str = "default") -> list[bytes]:
    return list(client.lrange(keys.rq_queue(queue), 0, -1))  # type: ignore[arg-type]


def test_dup_two_beats(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    """Two beats, fifty five-second schedules: every nominal time once. RQTEST_SECONDS makes it longer."""
    spec = app(FIFTY)
    beats = [spawn("run", spec, "--url", redis_url) for _ in range(2)]
    wait_for(lambda: len(enqueued(reader)) >= 50, 20, "the first round")
    time.sleep(SECONDS)
    assert [beat.terminate() for beat in beats] == [0, 0]
    entries = enqueued(reader)
    counts = Counter((entry.schedule, entry.nominal) for entry in entries)
    assert set(counts.values()) == {1}
    assert Counter(queued(client, keys)) == Counter({(entry.job_id or "").encode(): 1 for entry in entries})
    for n in range(50):
        times = sorted(nominal for schedule, nominal in counts if schedule == f"tick-{n}")
        assert times == list(range(times[0], times[-1] + 1, 5000))
        assert len(times) >= SECONDS // 5


def test_dup_leader_identity_by_hostname(spawn: Spawn, app: Callable[[str], str], redis_url: str, keys: Keys) -> None:
    """Two processes on one host are two owners, and one of them leads."""
    spec = app(EVERY_SECOND)
    beats = [spawn("run", spec, "--url", redis_url) for _ in range(2)]
    wait_for(lambda: sum("now leader" in beat.text for beat in beats) == 1, 15, "a leader")
    wait_for(lambda: sum("now standby" in beat.text for beat in beats) == 1, 15, "a standby")


def test_a_standby_takes_over_at_once_when_the_leader_is_stopped(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader
) -> None:
    spec = app(EVERY_SECOND)
    first = spawn("run", spec, "--url", redis_url)
    first.says("now leader")
    second = spawn("run", spec, "--url", redis_url)
    second.says("now standby")
    assert first.terminate() == 0
    second.says("now leader", seconds=1)
    assert "now leader" in second.text


def test_miss_during_takeover(spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader) -> None:
    """The leader is killed: the standby leads within five seconds, and no nominal time is lost or doubled."""
    spec = app(EVERY_SECOND)
    first = spawn("run", spec, "--url", redis_url)
    first.says("now leader")
    second = spawn("run", spec, "--url", redis_url)
    second.says("now standby")
    wait_for(lambda: enqueued(reader), 5, "a fire")
    first.kill()
    second.says("now leader", seconds=5)
    wait_for(lambda: len(enqueued(reader)) >= 7, 10, "fires of the second")
    times = sorted(entry.nominal for entry in enqueued(reader))
    assert times == list(range(times[0], times[-1] + 1, 1000))


def test_dup_retried_command_after_lost_reply(
    spawn: Spawn, app: Callable[[str], str], proxy: Any, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    """The reply of every second commit is cut off: each nominal time is still decided and queued once."""
    spec = app(EVERY_SECOND.replace("IntervalTrigger(1)", "IntervalTrigger(0.2)"))
    proxy.every = 2
    proxy.cut = hashlib.sha1(source("commit").encode()).hexdigest().encode()  # noqa: S324 - what EVALSHA sends
    client.flushall()
    beat = spawn("run", spec, "--url", proxy.url)
    wait_for(lambda: proxy.strikes >= 10, 30, "ten cut replies")
    proxy.cut = None
    beat.says("Redis answers again", seconds=15)
    assert beat.terminate() == 0
    times = sorted(entry.nominal for entry in reader.history("tick", most=1000))
    covered = [entry for entry in reader.history("tick", most=1000) if entry.count > 1]
    assert covered == []
    assert times == list(range(times[0], times[-1] + 1, 200))
    assert len(set(queued(client, keys))) == len(queued(client, keys)) == len(enqueued(reader))


def test_a_queue_of_the_wrong_type_stops_one_schedule_alone(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    spec = app(
        EVERY_SECOND
        + 'scheduler.schedule(Tick, IntervalTrigger(1), id="broken", queue="broken", overlap="allow", misfire="all")\n'
    )
    client.set(keys.rq_queue("broken"), "not a list")
    beat = spawn("run", spec, "--url", redis_url)
    beat.says(f"broken: set aside: {keys.rq_queue('broken')}")
    wait_for(lambda: len(enqueued(reader, "tick")) >= 3, 10, "fires of the other")
    assert enqueued(reader, "broken") == []
    client.delete(keys.rq_queue("broken"))
    wait_for(lambda: len(enqueued(reader, "broken")) >= 3, 15, "fires of the mended one")
    times = sorted(entry.nominal for entry in enqueued(reader, "broken"))
    assert times == list(range(times[0], times[-1] + 1, 1000))


def test_miss_redis_down_at_boot(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    """Redis comes ten seconds after the beat: it waited, said so, and fires by itself."""
    own = OwnServer(Path("/tmp"), socket=tmp_path / "late.sock")  # noqa: S108 - a short path for a socket
    beat = spawn("run", app(EVERY_SECOND), "--url", own.url)
    beat.says("waiting for Redis")
    assert "Traceback" not in beat.text
    own.start()
    try:
        beat.says("now leader", seconds=10)
        with connect(own.url) as client:
            wait_for(lambda: enqueued(Reader(client, Keys())), 5, "a fire")
    finally:
        own.kill()


def test_miss_after_redis_outage(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    """A server that is killed and comes back with its data: the beat stays, and nothing is lost or doubled."""
    options = ("--appendonly", "yes", "--appendfsync", "always")
    own = OwnServer(tmp_path, socket=tmp_path / "s", options=options)
    own.start()
    beat = spawn("run", app(EVERY_SECOND), "--url", own.url)
    beat.says("now leader")
    with connect(own.url) as client:
        wait_for(lambda: len(enqueued(Reader(client, Keys()))) >= 2, 10, "fires before")
    own.kill()
    beat.says("trying again")
    own.start()
    try:
        with connect(own.url) as client:
            reader = Reader(client, Keys())
            before = len(enqueued(reader))
            wait_for(lambda: len(enqueued(reader)) >= before + 3, 15, "fires after")
            times = sorted(entry.nominal for entry in enqueued(reader))
            assert times == list(range(times[0], times[-1] + 1, 1000))
        assert beat.terminate() == 0
    finally:
        own.kill()


@pytest.mark.parametrize("wait_for_redis", [True, False])
def test_dc_python_pid1(spawn: Spawn, app: Callable[[str], str], redis_url: str, wait_for_redis: bool) -> None:
    """SIGTERM ends the beat within three seconds in every state, with exit code 0."""
    url = "redis://127.0.0.1:1/0" if wait_for_redis else redis_url
    beat = spawn("run", app(EVERY_SECOND), "--url", url)
    beat.says("waiting for Redis" if wait_for_redis else "now leader")
    assert beat.terminate(3) == 0


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_an_app_is_loaded_ends_it(spawn: Spawn, tmp_path: Path, sig: signal.Signals) -> None:
    (tmp_path / "slow.py").write_text("print('loading', flush=True)\nimport time\ntime.sleep(30)\n")
    beat = spawn("run", "slow:scheduler")
    beat.says("loading")
    beat.process.send_signal(sig)
    assert beat.ends(3) != 0


def test_redis_auth(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    """A wrong password ends the start with one line that does not hold it; the right one works, whatever is in it."""
    own = OwnServer(tmp_path, socket=tmp_path / "s")
    own.start()
    try:
        with connect(own.url) as client:
            client.config_set("requirepass", "p@#:/%ü$")
        spec = app(EVERY_SECOND)
        wrong = spawn("run", spec, "--url", f"unix://:S3CRET@{own.socket}")
        assert wrong.ends() == 2
        assert "password" in wrong.text
        assert "S3CRET" not in wrong.text
        assert "Traceback" not in wrong.text
        right = spawn("run", spec, "--url", f"unix://:p%40%23%3A%2F%25%C3%BC%24@{own.socket}")
        right.says("now leader")
        assert right.terminate() == 0
    finally:
        own.kill()


def test_redis_eviction_policy(spawn: Spawn, app: Callable[[str], str], tmp_path: Path) -> None:
    own = OwnServer(tmp_path, socket=tmp_path / "s", options=("--maxmemory-policy", "allkeys-lru"))
    own.start()
    try:
        beat = spawn("run", app(EVERY_SECOND), "--url", own.url)
        assert beat.ends() == 2
        assert "maxmemory-policy" in beat.text
    finally:
        own.kill()


def test_redis_shared_by_environments(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis
) -> None:
    """Two namespaces on one Redis: each beat leads its own, and every key has its prefix."""
    spec = app(EVERY_SECOND)
    beats = [spawn("run", spec, "--url", redis_url, "--namespace", name) for name in ("shop", "lab")]
    for beat in beats:
        beat.says("now leader")
    readers = [Reader(client, Keys.for_namespace(name)) for name in ("shop", "lab")]
    wait_for(lambda: all(enqueued(reader) for reader in readers), 10, "fires of both")
    assert {key.split(b":", 1)[0] for key in client.scan_iter()} == {b"shop", b"lab"}


def test_a_paused_schedule_stays_paused_over_a_restart(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader
) -> None:
    spec = app(EVERY_SECOND)
    beat = spawn("run", spec, "--url", redis_url)
    wait_for(lambda: enqueued(reader), 10, "a fire")
    assert spawn("pause", "tick", "--note", "too loud", "--url", redis_url).ends() == 0
    count = len(enqueued(reader))
    assert beat.terminate() == 0
    spawn("run", spec, "--url", redis_url).says("now leader")
    time.sleep(2.5)
    assert len(enqueued(reader)) == count
    assert (reader.schedule("tick").status, reader.schedule("tick").note) == ("paused", "too loud")


def test_chg_resume_catches_up(spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader) -> None:
    """Resuming waits for the next slot; what lay in the pause is one range in the ledger."""
    beat = spawn("run", app(EVERY_SECOND), "--url", redis_url)
    wait_for(lambda: enqueued(reader), 10, "a fire")
    assert spawn("pause", "tick", "--url", redis_url).ends() == 0
    time.sleep(3)
    assert spawn("resume", "tick", "--url", redis_url).ends() == 0
    count = len(enqueued(reader))
    wait_for(lambda: len(enqueued(reader)) > count, 5, "a fire after the pause")
    assert beat.terminate() == 0
    (skipped,) = reader.history("tick", "skipped")
    assert (skipped.reason, skipped.count >= 2) == ("paused", True)
    covered = sorted((entry.nominal, entry.until) for entry in reader.history("tick", most=1000))
    for (_, until), (nominal, _) in pairwise(covered):
        assert nominal == until + 1000


def test_a_declared_change_fires_by_the_new_rule_only(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    beat = spawn("run", app(EVERY_SECOND), "--url", redis_url)
    wait_for(lambda: enqueued(reader), 10, "a fire")
    beat.terminate()
    changed = spawn("run", app(EVERY_SECOND.replace("IntervalTrigger(1)", "IntervalTrigger(3)")), "--url", redis_url)
    changed.says("1 changed")
    since = int(time.time() * 1000)
    wait_for(lambda: [entry for entry in enqueued(reader) if entry.nominal > since], 8, "a fire by the new rule")
    assert all(entry.nominal % 3000 == 0 for entry in enqueued(reader) if entry.nominal > since)


def test_chg_removed_still_fires(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    second = 'scheduler.schedule(Tick, IntervalTrigger(1), id="second", overlap="allow")\n'
    beat = spawn("run", app(EVERY_SECOND + second), "--url", redis_url)
    wait_for(lambda: enqueued(reader, "second"), 10, "a fire")
    beat.terminate()
    spawn("run", app(EVERY_SECOND), "--url", redis_url).says("1 removed")
    wait_for(lambda: len(enqueued(reader, "tick")) >= 3, 10, "fires of the one that stays")
    assert [view.id for view in reader.schedules()] == ["tick"]
    assert client.zscore(keys.timetable, "second") is None
    assert not client.exists(keys.schedule_prefix + "second")


def test_cfg_bad_reload_an_app_that_declares_nothing_wipes_nothing(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader
) -> None:
    spawn("run", app(EVERY_SECOND), "--url", redis_url).says("now leader")
    spawn("run", app("", "empty"), "--url", redis_url).says("not applied")
    assert [view.id for view in reader.schedules()] == ["tick"]


def test_what_is_idle_asks_little(spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis) -> None:
    """gr-idle-command-rate: a beat with nothing due sends less than twenty commands a second."""
    beat = spawn("run", app("@scheduler.cron('0 0 1 1 *')\ndef yearly(): ...\n"), "--url", redis_url)
    beat.says("now leader")
    time.sleep(1)  # what a new leader asks once
    before = client.info("stats")["total_commands_processed"]
    time.sleep(5)  # one round of every chore
    assert client.info("stats")["total_commands_processed"] - before < 100


def test_chg_no_effect_until_restart(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    """A change from later to sooner wakes a waiting beat at once, and a change from sooner to later holds it back."""
    beat = spawn("run", app("@scheduler.cron('0 0 1 1 *', id='s')\ndef job(): ...\n"), "--url", redis_url)
    beat.says("now leader")
    admin = Admin(client, keys, SystemClock(), "tester")
    stored = reader.definition("s")
    admin.upsert([replace(stored, trigger=IntervalTrigger(0.2), policy=replace(stored.policy, instances=0))])
    wait_for(lambda: len(enqueued(reader, "s")) >= 3, 1.5, "fires by the new rule")
    admin.upsert([replace(stored, trigger=IntervalTrigger(86_400))])
    count = len(enqueued(reader, "s"))
    time.sleep(1)
    assert len(enqueued(reader, "s")) == count


def test_miss_slow_neighbour(spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader) -> None:
    """Beside a rare rule, a large payload and a schedule that can't be read, an every-second one keeps its times."""
    body = EVERY_SECOND + (
        "class Large(Job):\n    def handle(self, text): ...\n"
        "scheduler.schedule(Large, IntervalTrigger(0.5), id='large', args=['x' * 200_000], overlap='allow')\n"
        "scheduler.schedule(Tick, CronTrigger('0 0 29 2 *') & CronTrigger('* * * * 1'), id='rare')\n"
    )
    spawn("run", app(body), "--url", redis_url)
    wait_for(lambda: len(enqueued(reader, "tick")) >= 10, 20, "ten fires")
    entries = enqueued(reader, "tick")
    times = sorted(entry.nominal for entry in entries)
    assert times == list(range(times[0], times[-1] + 1, 1000))
    assert max(entry.decided - entry.due for entry in entries) < 500


def test_miss_hung_job_blocks_schedule(spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader) -> None:
    """A job that hangs makes its own schedule skip, visibly, until its time-out; the next fire after that runs."""
    body = EVERY_SECOND + (
        "import time\n"
        "class Hang(Job):\n    timeout = 3\n    def handle(self): time.sleep(60)\n"
        "scheduler.schedule(Hang, IntervalTrigger(1), id='hang', queue='slow')\n"
    )
    spec = app(body)
    spawn("run", spec, "--url", redis_url)
    spawn("worker", "slow", "--app", spec, "--url", redis_url)
    wait_for(lambda: len(enqueued(reader, "hang")) >= 3, 25, "three runs of the hanging job")
    runs = sorted(entry.nominal for entry in enqueued(reader, "hang"))
    assert all(3000 <= later - earlier <= 7000 for earlier, later in pairwise(runs[1:]))
    skipped = {entry.nominal for entry in reader.history("hang", "skipped", most=1000)}
    assert {*skipped, *runs} >= set(range(runs[0], runs[-1] + 1, 1000))
    assert len(enqueued(reader, "tick")) >= 6


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_thirty_days_of_ten_milliseconds_are_decided_at_once(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys, reader: Reader
) -> None:
    """259 million nominal times missed: the beat starts in under two seconds, and the whole range is in the ledger."""
    body = EVERY_SECOND + "scheduler.schedule(Tick, IntervalTrigger(0.01), id='fast')\n"
    spec = app(body)
    first = spawn("run", spec, "--url", redis_url)
    wait_for(lambda: enqueued(reader, "fast"), 10, "a fire")
    before = resident_mb(first.process.pid)
    first.terminate()
    cursor = int(time.time() * 1000) - 30 * 86_400_000
    client.delete(keys.ledger_prefix + "fast")
    client.hset(keys.schedule_prefix + "fast", "cursor", cursor)
    client.zadd(keys.timetable, {"fast": cursor + 10})
    second = spawn("run", spec, "--url", redis_url)
    second.says("now leader")
    wait_for(lambda: reader.history("fast", "missed"), 2, "the decision about thirty days")
    assert resident_mb(second.process.pid) - before < 20
    second.terminate()
    entries = sorted(reader.history("fast", most=1000), key=lambda entry: entry.nominal)
    assert entries[0].nominal == cursor // 10 * 10 + 10
    assert all(later.nominal == earlier.until + 10 for earlier, later in pairwise(entries))
    assert sum(entry.count for entry in entries) > 259_000_000


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="reads /proc")
def test_gr_memory_of_beat(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, client: redis.Redis, keys: Keys
) -> None:
    """Once it is warm, ten thousand fires more leave a beat as large as it was."""
    body = "class T(Job):\n    def handle(self): ...\nfor n in range(40):\n    "
    beat = spawn(
        "run",
        app(body + "scheduler.schedule(T, IntervalTrigger(0.02), id=f't{n}', overlap='allow')\n"),
        "--url",
        redis_url,
    )
    wait_for(lambda: client.llen(keys.rq_queue("default")) > 2000, 20, "a warm beat")
    before, fires = resident_mb(beat.process.pid), client.llen(keys.rq_queue("default"))
    wait_for(lambda: client.llen(keys.rq_queue("default")) > fires + 10_000, 40, "ten thousand fires")
    assert resident_mb(beat.process.pid) - before < 1


def test_backlog_date_in_past(
    spawn: Spawn, app: Callable[[str], str], redis_url: str, reader: Reader, client: redis.Redis, keys: Keys
) -> None:
    """A declared one-shot that fired stays fired over three restarts."""
    spec = app(
        EVERY_SECOND + f"scheduler.schedule(Tick, DateTrigger({int(time.time()) - 5}), id='once', queue='once')\n"
    )
    for _ in range(4):
        beat = spawn("run", spec, "--url", redis_url)
        beat.says("now leader")
        wait_for(lambda: enqueued(reader, "once"), 5, "the fire")
        beat.terminate()
    assert len(enqueued(reader, "once")) == len(queued(client, keys, "once")) == 1
    assert reader.schedule("once").status == "completed"
