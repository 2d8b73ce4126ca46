"""What a job costs a worker: no-op jobs a second on two processes, Redis' commands for each, and how soon one starts.

    python tests/bench/workers.py [NAME…] [--scale 1] [--single 200]      all of them unless named

For each kind of worker a server of its own is started, two processes of it, and so many jobs are sent that it works for
some ten seconds. Time and commands are taken from the moment at which a tenth of the jobs has left the queue to that at
which the queue is empty. Commands are what the server has counted meanwhile, those that scripts ran included, less the
bench's own. Then single jobs are sent to the idle workers: `start` is from before the job is sent to the first line of
its handler, by one clock.

    jobs/s         jobs that left the queue, in a second
    commands       of Redis, for each job
    p50, p99       of the start of a single job, ms

rq's workers run with its own serializer. arq, dramatiq and huey run from the interpreter that RQBENCH_WORKER_PEERS
names (see peers/worker-requirements.txt); those that it has not are left out.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bench_jobs import Nothing, Now
from ground import HERE, SEARCHED, own_server, percentile, process, surroundings, table, wait_until
from peers.rq_job import nothing, now
from rq import Queue

from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import RedisOutbox
from shared.redisio.server import OwnServer

HEAD = ("two processes", "jobs/s", "commands", "p50 ms", "p99 ms")
PEERS = HERE / "peers"
PROCESSES = 2
SETTLE_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of worker: how its jobs are sent, where they wait, how its processes are started.

    `one` sends a single job and returns the instant at which its handler ran, None for those that tell none.
    """

    count: int
    send: Callable[[Any, OwnServer, int], None]
    waiting: Callable[[Any], int]
    commands: list[list[str]]
    one: Callable[[Any], float] | None = None
    warm_up: float = SETTLE_SECONDS


def ours(mode: str) -> list[list[str]]:
    common = [sys.executable, "-P", "-m", "worker", "default", "--app", "bench_app:nothing_declared"]
    return [[*common, "--mode", mode, "-n", str(PROCESSES)]]


def rqs(kind: str) -> list[list[str]]:
    return [[sys.executable, "-m", "rq.cli", "worker", "--worker-class", kind, "--quiet", "default"]] * PROCESSES


def dispatched(_client: Any, _server: OwnServer, count: int) -> None:
    for start in range(0, count, 1000):
        Nothing.dispatch_many([((number,), {}) for number in range(start, min(count, start + 1000))])


def dispatched_one(_client: Any) -> float:
    found: float = Now.dispatch().result(10)
    return found


def enqueued(client: Any, _server: OwnServer, count: int) -> None:
    queue = Queue("default", connection=client)
    for start in range(0, count, 1000):
        numbers = range(start, min(count, start + 1000))
        queue.enqueue_many([Queue.prepare_data(nothing, [number], timeout=180) for number in numbers])


def enqueued_one(client: Any) -> float:
    result = Queue("default", connection=client).enqueue(now).latest_result(timeout=10)
    assert result is not None
    return float(result.return_value)


def listed(key: str, client: Any) -> int:
    return int(client.llen(key))


def sorted_in(key: str, client: Any) -> int:
    return int(client.zcard(key))


def sent_by(script: str, _client: Any, server: OwnServer, count: int) -> None:
    environ = {**os.environ, "RQBENCH_SOCKET": str(server.socket)}
    subprocess.run([peers_python(), script, str(count)], check=True, cwd=PEERS, env=environ)


def peers_python() -> str:
    return os.environ.get("RQBENCH_WORKER_PEERS", "")


def kinds(scale: float) -> dict[str, Kind]:
    size: Callable[[int], int] = lambda count: max(100, int(count * scale))  # noqa: E731
    rq_waiting = partial(listed, Keys().rq_queue("default"))
    mine = {"send": dispatched, "waiting": rq_waiting, "one": dispatched_one}
    theirs = {"send": enqueued, "waiting": rq_waiting, "one": enqueued_one}
    found = {
        "rq Worker": Kind(count=size(1500), commands=rqs("rq.worker.Worker"), **theirs),
        "rq SimpleWorker": Kind(count=size(5000), commands=rqs("rq.worker.SimpleWorker"), **theirs),
        "rqbeat --mode fork": Kind(count=size(1500), commands=ours("fork"), **mine),
        "rqbeat --mode pool": Kind(count=size(30000), commands=ours("pool"), **mine),
    }
    if not peers_python():
        return found
    python = peers_python()
    huey = [python, "-m", "huey.bin.huey_consumer", "huey_app.huey", "-w", "1", "-k", "process", "-q"]
    dramatiq = [python, "-m", "dramatiq", "dramatiq_app", "-p", str(PROCESSES), "-t", "8"]
    arq = [python, "-m", "arq", "arq_app.WorkerSettings"]
    return found | {
        "arq": Kind(
            count=size(10000),
            commands=[arq] * PROCESSES,
            send=partial(sent_by, "arq_app.py"),
            waiting=partial(sorted_in, "arq:queue"),
        ),
        "dramatiq (8 threads each)": Kind(
            count=size(20000),
            commands=[dramatiq],
            send=partial(sent_by, "dramatiq_app.py"),
            waiting=partial(listed, "dramatiq:default"),
        ),
        "huey": Kind(
            count=size(20000),
            commands=[huey] * PROCESSES,
            send=partial(sent_by, "huey_app.py"),
            waiting=partial(listed, "huey.redis.bench"),
        ),
    }


def commands_of(client: Any) -> int:
    return sum(int(row["calls"]) for row in client.info("commandstats").values())


@contextmanager
def working(kind: Kind, server: OwnServer) -> Iterator[None]:
    environ = {
        "RQBEAT_REDIS_URL": server.url,
        "RQ_REDIS_URL": server.url,
        "RQBENCH_SOCKET": server.socket,
        "PYTHONPATH": SEARCHED,
    }
    with ExitStack() as stack:
        for number, command in enumerate(kind.commands):
            log = server.socket.with_name(f"worker-{number}.log")
            stack.enter_context(process(command, log, PEERS, **environ))
        yield


def throughput(kind: Kind, server: OwnServer, client: Any) -> tuple[float, float]:
    """Jobs a second, and commands for each."""
    kind.send(client, server, kind.count)
    with working(kind, server):
        wait_until(lambda: kind.waiting(client) <= 0.9 * kind.count, 120, "a tenth of the jobs", 0.01)
        started, left, before = time.perf_counter(), kind.waiting(client), commands_of(client)
        looks = [0]

        def is_empty() -> bool:
            looks[0] += 1
            return kind.waiting(client) == 0

        wait_until(is_empty, 300, "an empty queue", 0.05)
        seconds, after = time.perf_counter() - started, commands_of(client)
    return left / seconds, (after - before - looks[0] - 1) / left


def starts(kind: Kind, server: OwnServer, client: Any, singles: int) -> list[float]:
    """How long single jobs took to start, in ms."""
    if kind.one is None:
        return []
    client.flushall()
    with working(kind, server):
        found = []
        kind.one(client)
        time.sleep(kind.warm_up)
        for _ in range(singles):
            sent = time.time()
            found.append((kind.one(client) - sent) * 1000)
            time.sleep(0.05)
    return found


def measured(name: str, kind: Kind, singles: int) -> list[object]:
    with own_server() as (server, client, settings), using_outbox(RedisOutbox(client, settings.keys)):
        rate, commands = throughput(kind, server, client)
        lags = starts(kind, server, client, singles)
    told = [f"{percentile(lags, share):.1f}" for share in (0.5, 0.99)] if lags else ["", ""]
    return [name, f"{rate:,.0f}", f"{commands:.1f}", *told]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--single", type=int, default=200)
    asked = parser.parse_args()
    known = kinds(asked.scale)
    if unknown := set(asked.names) - set(known):
        parser.error(f"no such worker: {', '.join(sorted(unknown))}; there are: {', '.join(known)}")
    chosen = {name: kind for name, kind in known.items() if not asked.names or name in asked.names}
    rows = []
    for name, kind in chosen.items():
        try:
            rows.append(measured(name, kind, asked.single))
        except subprocess.CalledProcessError as absent:
            rows.append([f"{name}: left out, {absent.cmd[1]} ended with {absent.returncode}", "", "", "", ""])
        print(rows[-1], file=sys.stderr, flush=True)
    with own_server() as (_, client, _settings):
        print(surroundings(client), end="\n\n")
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
