"""Brings the stack of docker-compose.yml up for real, breaks it, looks, and takes it down. Run it as a script.

    0   every promise held, or there is no container engine here (it says so)
    1   one did not hold: the sentence that failed, then the logs of the containers

The stack runs in a compose project of its own, so it disturbs no other, and is taken down also when a step failed. The
image `rqbeat-compose-test` stays, with its build stage: the next build's cache. Needs nothing but Python's standard
library.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENGINE_SCRIPT = ROOT / "../shared/tools/containers.sh"
CACHE_IMAGE = "rqbeat-compose-test"
WORKERS = 3
GRIDS = {"tick": 5, "chime": 60}
"""The schedules of the default app, and their seconds."""
VARIABLES = {"APP_FOLDER": "examples", "RQBEAT_APP": "quickstart:scheduler", "REDIS_PASSWORD": "", "STOP_GRACE": ""}
"""The defaults, whatever the environment or a file `.env` says."""
MOUNTED = """
import time
from scheduler import SchedulerManager
scheduler = SchedulerManager()
scheduler.every(5, id="tick")(time.time)
scheduler.cron("* * * * *", id="chime")(time.time)

@scheduler.every(10, id="slow")
def slow():
    time.sleep(15)
"""
"""An app of a user's own, with a job that takes longer than compose waits unless told to."""
HEALTHY_WITHIN = 60
GRACE = 60


class BrokenPromiseError(Exception):
    """What was to hold did not; the message says what."""


class Stack:
    """One compose project."""

    def __init__(self, compose: list[str]) -> None:
        self._compose = compose
        self._folder = Path(tempfile.mkdtemp(prefix="rqbeat-app-"))
        self._environment = {**os.environ, **VARIABLES, "COMPOSE_PROJECT_NAME": f"rqbeattest{os.getpid()}"}

    def __call__(self, *arguments: str, seconds: float = 120, fails: bool = False) -> str:
        """Run one compose command; its output. Raises BrokenPromiseError when it fails, unless that is what it does."""
        return _run([*self._compose, *arguments], self._environment, seconds, fails=fails)

    def up(self, *options: str) -> None:
        self("up", "-d", "--scale", f"worker={WORKERS}", *options, seconds=300)

    def mount(self, code: str) -> None:
        """From the next `up` on, run this code, mounted, instead of what was built in."""
        (self._folder / "mounted.py").write_text(code)
        self._folder.chmod(0o755)
        self._compose = [*self._compose, "-f", "docker-compose.yml", "-f", "docs/deploy/compose.mount.yml"]
        self._environment |= {"APP_FOLDER": str(self._folder), "RQBEAT_APP": "mounted:scheduler"}

    def rqbeat(self, *arguments: str) -> Any:
        """What a command says in JSON, asked in a worker, which is there also when the beat is not."""
        return json.loads(self("exec", "-T", "worker", "rqbeat", *arguments, "--json"))

    def containers(self) -> list[dict[str, Any]]:
        """What the engine knows of each container, also of those that ended."""
        names = self("ps", "-q").split() or self("ps", "-a", "-q").split()
        found: list[dict[str, Any]] = json.loads(_docker("inspect", *names))
        return found

    def entries(self, schedule: str) -> list[dict[str, Any]]:
        """The ledger of a schedule, oldest first."""
        found: list[dict[str, Any]] = self.rqbeat("history", schedule, "-n", "1000")["entries"]
        return found[::-1]

    def down(self) -> None:
        """Remove all that was made for it."""
        self("down", "-v", "--remove-orphans", "--rmi", "local", seconds=120)
        shutil.rmtree(self._folder)


def main() -> int:
    """Run all steps; the exit code."""
    compose = _find_compose()
    if compose is None:
        print("skipped: no container engine here")
        return 0
    stack = Stack(compose)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the stack is taken down then, too
    try:
        for step in STEPS:
            _timed(step, stack)
    except (BrokenPromiseError, subprocess.TimeoutExpired) as broken:
        print(f"FAILED: {broken}\n{_logs(stack)}")
        return 1
    finally:
        stack.down()
    print("ok")
    return 0


def builds(stack: Stack) -> None:
    """The image builds; its stages are kept in the place of those from before, as the next build's cache."""
    before = _cached()
    given = [f"--build-arg={name}={os.environ.get(name, '')}" for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")]
    given.append("--build-arg=APP_FOLDER=examples")  # all as compose has them, or its build would find no cache
    for stage in (["--target", "build", "-t", f"{CACHE_IMAGE}:build"], ["-t", CACHE_IMAGE]):
        _docker("build", "-q", *given, *stage, str(ROOT), seconds=300)
    stack("build", seconds=300)
    if stale := before - _cached():
        _docker("rmi", "-f", *stale, fails=True)


def becomes_healthy(stack: Stack) -> None:
    """Every service is healthy within a minute, and none was restarted on the way."""
    stack.up()
    _wait(HEALTHY_WITHIN, "all containers are healthy", lambda: set(_states(stack, "Health", "Status")) == {"healthy"})
    _expect(len(stack.containers()) == WORKERS + 2, "the stack has one redis, one beat and the workers asked for")
    _expect(all(found["RestartCount"] == 0 for found in stack.containers()), "no container was started again")


def is_closed(stack: Stack) -> None:
    """Redis is reached from inside only, keeps writes and evicts nothing; the others write nowhere but in /tmp."""
    published = [ports for found in stack.containers() if (ports := found["HostConfig"]["PortBindings"])]
    _expect(not published, f"no port is published, found {published}")
    for name, value in {"maxmemory-policy": "noeviction", "appendonly": "yes", "dir": "/data"}.items():
        _expect(value in stack("exec", "-T", "redis", "valkey-cli", "config", "get", name), f"Redis has {name} {value}")
    for service in ("beat", "worker"):
        tried = stack("exec", "-T", service, "sh", "-c", "touch /app/x /opt/x 2>&1; touch /tmp/x && id -u")
        _expect(tried.count("Read-only") == 2 and not tried.endswith("\n0\n"), f"{service} is read-only and not root")


def runs_each_fire_once(stack: Stack) -> None:
    """Both schedules fire on their grid, and each fire becomes one job that runs."""
    _wait(75, "both schedules fired", lambda: len(stack.entries("tick")) >= 4 and len(stack.entries("chime")) >= 1)
    _wait(15, "every job ran", lambda: _all_ran(stack))
    _check_ledgers(stack)


def survives_a_killed_beat(stack: Stack) -> None:
    """Fires that were due while the beat lay dead are decided when it is back: none twice, none lost."""
    stack("kill", "-s", "SIGKILL", "beat")
    time.sleep(12)  # two fires of the quick schedule fall due with nobody there
    before = len(stack.entries("tick"))
    stack.up()
    _wait(40, "the beat fires again", lambda: len(stack.entries("tick")) >= before + 4)
    _check_ledgers(stack)


def comes_back_after_a_crash(stack: Stack) -> None:
    """A worker whose processes are killed is started again, by the engine alone."""
    stack("exec", "-T", "--index", "1", "worker", "sh", "-c", "kill -KILL -1", fails=True)
    _wait(30, "a worker was started again", lambda: sum(found["RestartCount"] for found in stack.containers()) == 1)
    _wait(30, "it is healthy", lambda: set(_states(stack, "Health", "Status")) == {"healthy"})


def keeps_its_data(stack: Stack) -> None:
    """Containers that are removed and made again find the state that they left."""
    stack("exec", "-T", "worker", "rqbeat", "pause", "chime")
    before = stack.entries("tick")
    stack("down", seconds=GRACE)
    stack.up()
    _wait(HEALTHY_WITHIN, "the workers are back", lambda: set(_states(stack, "Health", "Status")) == {"healthy"})
    _expect(stack.entries("tick")[: len(before)] == before, "the ledger is the one from before")
    status = {row["id"]: row["status"] for row in stack.rqbeat("list")["schedules"]}
    _expect(status == {"tick": "active", "chime": "paused"}, f"what was paused stays so, found {status}")


def runs_mounted_code(stack: Stack) -> None:
    """A user's own folder, mounted, runs without a new build."""
    stack.mount(MOUNTED)
    stack.up("--no-build")
    _wait(60, "the slow job runs", lambda: any(row["running"] for row in stack.rqbeat("queues")["queues"]))


def stops_in_time(stack: Stack) -> None:
    """A stop waits for the running job, then ends every process by itself, with 0, before its grace is over."""
    began, running = time.monotonic(), stack.entries("slow")[-1]["job_id"]
    ids = [found["Id"] for found in stack.containers()]
    stack("stop", seconds=GRACE)
    _expect(time.monotonic() - began < GRACE, "the stack stops within its grace")
    ended = json.loads(_docker("inspect", *ids))
    codes = {found["Name"]: found["State"]["ExitCode"] for found in ended}
    _expect(set(codes.values()) == {0}, f"every container ends with 0, found {codes}")
    _expect(f"({running}) finished" in stack("logs", "--no-color", "worker"), "the job that ran was not cut off")


STEPS = (
    builds,
    becomes_healthy,
    is_closed,
    runs_each_fire_once,
    survives_a_killed_beat,
    comes_back_after_a_crash,
    keeps_its_data,
    runs_mounted_code,
    stops_in_time,
)


def _check_ledgers(stack: Stack) -> None:
    """Every nominal time from the first to the last is covered by exactly one entry."""
    for schedule, step in GRIDS.items():
        covered = Counter(at for entry in stack.entries(schedule) for at in _covered(entry, step))
        expected = range(min(covered), max(covered) + step, step)
        twice = [at for at, times in covered.items() if times > 1]
        lost = [at for at in expected if at not in covered]
        _expect(not twice, f"{schedule}: no nominal time is decided twice, found {twice}")
        _expect(not lost, f"{schedule}: no nominal time is lost, missing {lost}")


def _covered(entry: dict[str, Any], step: int) -> range:
    """The nominal times, epoch seconds, that an entry decides."""
    first, last = (int(datetime.fromisoformat(entry[name]).timestamp()) for name in ("nominal", "until"))
    _expect(len(found := range(first, last + 1, step)) == entry["count"], f"an entry counts its fires: {entry}")
    return found


def _all_ran(stack: Stack) -> bool:
    """Whether as many runs ended well as fires became jobs, and none failed."""
    fired = sum(entry["outcome"] == "enqueued" for schedule in GRIDS for entry in stack.entries(schedule))
    queues = stack.rqbeat("queues")["queues"]
    runs = sum(row["runs"] for row in stack.rqbeat("list")["schedules"])
    _expect(all(row["failed"] == 0 and row["expired"] == 0 for row in queues), f"no job fails: {queues}")
    return fired <= runs and all(row["depth"] == row["running"] == 0 for row in queues)


def _states(stack: Stack, *path: str) -> list[Any]:
    found = [container["State"] for container in stack.containers()]
    for name in path:
        found = [state.get(name, {}) for state in found]
    return found


def _cached() -> set[str]:
    return set(_docker("images", "-q", CACHE_IMAGE).split())


def _docker(*arguments: str, seconds: float = 60, fails: bool = False) -> str:
    return _run(["docker", *arguments], dict(os.environ), seconds, fails=fails)


def _find_compose() -> list[str] | None:
    """The compose command, with an engine behind it; one is started where the script for it lies beside the project."""
    if not _works("docker", "info") and ENGINE_SCRIPT.is_file():
        _run(["bash", str(ENGINE_SCRIPT)], dict(os.environ), 600)
    if not _works("docker", "info"):
        return None
    return next((found for found in (["docker", "compose"], ["docker-compose"]) if _works(*found, "version")), None)


def _works(*command: str) -> bool:
    return shutil.which(command[0]) is not None and subprocess.run(command, capture_output=True).returncode == 0  # noqa: PLW1510


def _run(command: list[str], environment: dict[str, str], seconds: float, *, fails: bool = False) -> str:
    ended = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if ended.returncode != 0 and not fails:
        raise BrokenPromiseError(f"`{' '.join(command)}` ended with {ended.returncode}:\n{ended.stdout}{ended.stderr}")
    return ended.stdout


def _wait(seconds: float, what: str, holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        _expect(time.monotonic() < ends, f"within {seconds:g} s {what}")
        time.sleep(1)


def _expect(holds: bool, sentence: str) -> None:
    if not holds:
        raise BrokenPromiseError(sentence)


def _timed(step: Callable[[Stack], None], stack: Stack) -> None:
    began = time.monotonic()
    step(stack)
    print(f"{step.__name__.replace('_', ' ')}: {time.monotonic() - began:.0f} s", flush=True)


def _logs(stack: Stack) -> str:
    return stack("logs", "--no-color", "--tail", "60")


if __name__ == "__main__":
    sys.exit(main())
