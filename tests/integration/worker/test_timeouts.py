"""How runs end that last too long, and what they leave behind: nothing."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hard_jobs as jobs
import pytest
import redis

from shared.keys import Keys
from tests.chaos.arena import SCALE

pytestmark = pytest.mark.timeout(120 if SCALE <= 1 else 1200)

APP = {"RQBEAT_APP": "hard_jobs:scheduler"}
HURRIED = {"RQBEAT_APP": "hurried:scheduler"} if SCALE <= 1 else APP
SWALLOWED = 5 + 1.5
"""A time-out that was swallowed ends the run 5 s later."""
IN_C = (3 if SCALE <= 1 else 7) + 3
"""One that reaches no Python: 7 s later, when the worker looks up next; 3 s where it hurries."""


def parent_and_state(pid: int) -> tuple[int, str]:
    """Of a process; (0, "") when there is none."""
    try:
        state, parent, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0, ""
    return int(parent), state


def is_alive(pid: int) -> bool:
    return parent_and_state(pid)[1] not in ("", "Z")


def children(pid: int) -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if parent_and_state(int(entry.name))[0] == pid]


@pytest.mark.fault("F42")
def test_a_run_ends_within_a_second_of_its_time_out_and_is_tried_again(
    workers: Any, effects: Any, status: Any, eventually: Any
) -> None:
    late = (jobs.Sleeping, jobs.Spinning, jobs.Awaiting, jobs.SpinningInALoop, jobs.Waiting, jobs.Stubborn)
    ended(workers, effects, status, eventually, dict.fromkeys(late, 1.0))
    detached = [int(pid) for pid in effects("detached")]  # to-grandchildren
    eventually(lambda: len(detached) == 2 and not any(map(is_alive, detached)), 3.0)


@pytest.mark.fault("F42")
def test_to_swallowed_one_that_no_exception_reaches_is_killed(
    workers: Any, effects: Any, status: Any, eventually: Any
) -> None:
    ended(workers, effects, status, eventually,
          {jobs.SwallowingTwice: SWALLOWED, jobs.Threaded: SWALLOWED, jobs.Deep: IN_C})  # fmt: skip


def ended(workers: Any, effects: Any, status: Any, eventually: Any, limits: dict[Any, float]) -> None:
    """All at once. Each attempt lasts a second; it ends when the next one begins, the last when the job has failed."""
    handles = {job: job.options(queue=job.name).dispatch() for job in limits}
    workers.start(*[job.name for job in limits], **HURRIED)
    tried = {job: 1 + (job.retry.max if job.retry else 0) for job in limits}
    for job, tries in sorted(tried.items(), key=lambda item: item[1]):
        within = limits[job]
        eventually(lambda job=job: status(handles[job].id) == "failed", tries * (within + 1) + 5)
        began = [float(at) for at in effects(f"{job.name}-began")]
        over = [*began, time.time()][1] - began[0] - 1
        print(f"{job.name}: ended {over:.2f} s after its time-out")
        assert (len(began), 0 <= over <= within) == (tries, True)


@pytest.mark.parametrize("how", ["stop command", "second signal"])
def test_to_grandchildren_end_with_a_run_that_is_stopped(
    workers: Any, client: redis.Redis, keys: Keys, effects: Any, eventually: Any, how: str
) -> None:
    from rq.command import send_stop_job_command

    process = workers.start("default", **APP)
    handle = jobs.Waiting.options(timeout=600).dispatch()
    child = int(eventually(lambda: effects("detached"))[0])
    if how == "stop command":
        send_stop_job_command(client, handle.id)
    else:
        process.terminate()
        time.sleep(1.1)
        process.terminate()
    eventually(lambda: not is_alive(child), 5.0)


def test_to_grandchildren_of_a_killed_worker_end_with_it_where_several_run(
    workers: Any, effects: Any, eventually: Any
) -> None:
    supervisor = workers.start("default", "-n", "2", **APP)
    jobs.Waiting.options(timeout=600).dispatch()
    child = int(eventually(lambda: effects("detached"))[0])
    run, _ = parent_and_state(child)
    worker, _ = parent_and_state(run)
    assert parent_and_state(worker)[0] == supervisor.pid
    os.kill(worker, signal.SIGKILL)
    eventually(lambda: not is_alive(run) and not is_alive(child), 3.0)
    eventually(lambda: len(children(supervisor.pid)) == 2, 5.0)


def test_to_zombies(workers: Any, status: Callable[[str], str | None], effects: Any, eventually: Any) -> None:
    """Jobs that end well, raise, are killed or leave, each with programs that went their own ways."""
    count = 12 if SCALE <= 1 else 1000
    process = workers.start("default", **APP)
    handles = [jobs.Leaky.dispatch(number) for number in range(count)]
    eventually(lambda: status(handles[-1].id) in ("finished", "failed"), 5 * count)
    eventually(lambda: not any(parent_and_state(pid)[1] == "Z" for pid in children(process.pid)), 3.0)
    detached = [int(pid) for pid in effects("detached")]
    eventually(lambda: len(detached) == 2 * count and not any(map(is_alive, detached)), 3.0)
    assert [status(handle.id) for handle in handles] == ["finished", "failed", "failed", "failed"] * (count // 4)
    assert process.poll() is None


@pytest.mark.parametrize(("how", "code"), [("return", 0), ("exit", 3), ("raise", 1)])
def test_a_copy_that_a_run_forks_ends_by_itself_and_never_the_run(
    workers: Any, effects: Any, how: str, code: int
) -> None:
    workers.start("default", **APP)
    handles = [jobs.Forking.dispatch(how) for _ in range(3)]
    assert [handle.result(20) for handle in handles] == [code] * 3
    assert len(effects("forking")) == 3
    workers.started[-1].send_signal(signal.SIGTERM)
    assert workers.started[-1].wait(10) == 0
    assert workers.log().count("finished") == 3
    assert " failed: " not in workers.log()


def test_programs_that_the_app_itself_started_are_left_alone(
    workers: Any, tmp_path: Path, effects: Any, eventually: Any
) -> None:
    (tmp_path / "housed.py").write_text(
        "import subprocess\nfrom hard_jobs import scheduler\nhelper = subprocess.Popen(['sleep', '600'])\n"
        "open('helper', 'w').write(str(helper.pid))\n"
    )
    workers.start("default", RQBEAT_APP="housed:scheduler", PYTHONPATH=f"{tmp_path}:{workers.python_path}")
    assert jobs.Leaky.dispatch(0).result(20) == 0
    helper = int((tmp_path / "helper").read_text())
    try:
        eventually(lambda: not any(is_alive(int(pid)) for pid in effects("detached")), 3.0)
        assert is_alive(helper)
    finally:
        os.kill(helper, signal.SIGKILL)
