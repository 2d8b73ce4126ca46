"""Workers that are killed at each step of a run, in both modes, and what becomes of the job: the table of docs/jobs.md.

    python tests/integration/worker/kill_table.py [fork] [pool]

Each row has a queue and a worker of its own. The job counts an effect outside of its once-block and one inside of it,
and has no retry or one. `child` is the process that runs the job, alone; `both` is that and the worker, as when a
container is killed, and another worker is there. Ends with 1 when a row breaks what is promised:

    no job is lost: each ends finished or failed, and is in no list and in no registry of running jobs
    a block that was done is not done again; one that a kill cut off ends in doubt, and the job says so
    a job that is killed before its handler was called has an attempt of it left
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parents[2]), str(HERE / "app")]

import bench_jobs as jobs  # noqa: E402 - the app lies beside

from shared.keys import Keys  # noqa: E402
from shared.outbox import using_outbox  # noqa: E402
from shared.redisio.connection import connect  # noqa: E402
from shared.redisio.dispatch import RedisOutbox  # noqa: E402
from shared.redisio.server import OwnServer  # noqa: E402

POINTS = ("popped", "claimed", "started", "inside", "returned", "saved")
WORDS = {
    "popped": "popped",
    "claimed": "claimed, handler not called",
    "started": "in the handler",
    "inside": "inside `once`",
    "returned": "handler returned",
    "saved": "result saved",
    "raised": "not killed: an error inside `once`",
}
WITHIN = 90.0
HEAD = "| mode | killed | who | retries | attempts | effects | once | ends | after s |\n|" + " --- |" * 9


@dataclass(frozen=True)
class Row:
    """Where who is killed, with how many retries."""

    mode: str
    point: str
    victim: str
    retries: int

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.point}-{self.victim}-{self.retries}"


@dataclass(frozen=True)
class Came:
    """What came of a row."""

    status: str
    reason: str
    attempts: int
    effects: int
    once: int
    seconds: float
    left: int

    @property
    def ends(self) -> str:
        return f"{self.status}, in doubt" if "cut off inside the block" in self.reason else self.status


def rows(mode: str) -> list[Row]:
    killed = [
        Row(mode, point, victim, retries)
        for point in POINTS
        for victim in ("child", "both")
        for retries in (0, 1)
        if (mode, point, victim) != ("fork", "popped", "child")  # the parent pops
    ]
    return [*killed, Row(mode, "raised", "-", 1)]


class Stage:
    """A server, and the workers on it."""

    def __init__(self, server: OwnServer, client: Any, folder: Path) -> None:
        self.server, self.client, self.folder, self.keys = server, client, folder, Keys()
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, mode: str, *queues: str, **environ: str) -> None:
        settings = {
            "PYTHONPATH": f"{HERE.parents[2]}:{HERE / 'app'}",
            "RQBEAT_REDIS_URL": self.server.url,
            "RQBEAT_APP": "bench_jobs:scheduler",
        }
        with (self.folder / "workers.log").open("ab") as log:
            command = [sys.executable, "-m", "worker", "--mode", mode, *queues]
            started = subprocess.Popen(
                command, env={**os.environ, **settings, **environ}, cwd=self.folder, stdout=log, stderr=log,
                start_new_session=True,
            )  # fmt: skip
        self.processes.append(started)

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def field(self, job_id: str, name: str) -> str:
        return (self.client.hget(self.keys.rq_job(job_id), name) or b"").decode()

    def count(self, effect: str, job_id: str) -> int:
        return sum(value.decode() == job_id for value in self.client.lrange(f"effects:{effect}", 0, -1))

    def left(self, row: Row) -> int:
        lists = self.client.llen(self.keys.rq_queue(row.name)) + self.client.llen(self.keys.rq_taken(row.name))
        return int(lists + self.client.zcard(self.keys.rq_registry("wip", row.name)))


@contextmanager
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="rqkill-") as name, ExitStack() as stack:
        server = OwnServer(Path(name))
        server.start()
        stack.callback(server.kill)
        client = stack.enter_context(connect(server.url))
        stack.enter_context(using_outbox(RedisOutbox(client, Keys())))
        found = Stage(server, client, Path(name))
        stack.callback(found.end)
        yield found


def wait_until(holds: Callable[[], Any], seconds: float, what: str) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > ends:
            raise TimeoutError(f"after {seconds:g} s still not: {what}")
        time.sleep(0.05)


def play(on: Stage, mode: str) -> dict[Row, Came]:
    """Every row of a mode at once. The workers wait before the jobs are sent, so that the ids are popped by a wait."""
    table = rows(mode)
    for row in table:
        on.start(mode, row.name, RQBEAT_APP="faulty:scheduler", TEST_POINT=row.point,
                 TEST_VICTIM=row.victim, TEST_ROW=row.name)  # fmt: skip
    wait_until(lambda: sum(one["cmd"] == "blmove" for one in on.client.client_list()) == len(table), 90, "workers")
    ids = {row: sent(row) for row in table}
    killed = [row for row in table if row.point != "raised"]
    wait_until(lambda: all(on.client.exists(f"killed:{row.name}") for row in killed), 60, "kills")
    on.start(mode, *[row.name for row in killed if row.victim == "both"])
    return settled(on, ids)


def sent(row: Row) -> str:
    kind = jobs.MarkedRetried if row.retries else jobs.Marked
    return kind.options(queue=row.name).dispatch(row.point != "raised").id


def settled(on: Stage, ids: dict[Row, str]) -> dict[Row, Came]:
    found: dict[Row, float] = {}

    def look() -> bool:
        for row, job_id in ids.items():
            if row not in found and on.field(job_id, "status") in {"finished", "failed"}:
                found[row] = time.time()
        return len(found) == len(ids)

    try:
        wait_until(look, WITHIN, "all ended")
        wait_until(lambda: not any(on.left(row) for row in ids), 40, "nothing left behind")
    except TimeoutError as error:
        print(error, file=sys.stderr)
    return {row: came(on, row, job_id, found.get(row, 0.0)) for row, job_id in ids.items()}


def came(on: Stage, row: Row, job_id: str, ended: float) -> Came:
    killed = float(on.client.get(f"killed:{row.name}") or ended)
    return Came(
        status=on.field(job_id, "status") if ended else "LOST",
        reason=on.field(job_id, "last_error"),
        attempts=int(on.field(job_id, "attempt") or 0),
        effects=on.count("marked", job_id),
        once=on.count("mail", job_id),
        seconds=max(0.0, ended - killed),
        left=on.left(row),
    )


def broken(row: Row, found: Came) -> list[str]:
    """The promises that a row breaks."""
    unstarted = row.point == "popped" or (row.mode, row.point, row.victim) == ("pool", "claimed", "child")
    promises = {
        "the job is lost": found.status in {"finished", "failed"},
        "something is left behind": found.left == 0,
        "a block was done twice": found.once <= 1,
        "a cut-off block is not in doubt": row.point != "inside" or not row.retries or found.ends == "failed, in doubt",
        "an unstarted job lost an attempt": not unstarted or (found.status, found.attempts) == ("finished", 1),
        "an effect did not happen": row.point != "raised" or (found.status, found.once) == ("finished", 1),
    }
    return [f"{row.name}: {words}" for words, holds in promises.items() if not holds]


def line(row: Row, found: Came) -> str:
    cells = (row.mode, WORDS[row.point], row.victim, row.retries, found.attempts, found.effects, found.once, found.ends)
    seconds = "-" if row.point == "raised" else f"{found.seconds:.1f}"
    return "| " + " | ".join(map(str, (*cells, seconds))) + " |"


def main() -> int:
    problems: list[str] = []
    print(HEAD)
    for mode in sys.argv[1:] or ("fork", "pool"):
        with stage() as on:
            for row, found in play(on, mode).items():
                print(line(row, found), flush=True)
                problems += broken(row, found)
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
