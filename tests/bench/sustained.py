"""How late jobs are while so many fires a second go on: rqbeat beside its peers, one after the other on one server.

    python tests/bench/sustained.py [--rate 1000] [--seconds 60] [--slow-rate 100] [--slow-seconds 30] [--only NAME…]

RATE schedules of one second each, in two forms: `spread`, first fires a step apart over the second; and `same`, all of
them due at whole seconds. Peers that know no finer grid than whole seconds have the second form alone.

One observer watches them all, from outside: it reads what is new in the queue's list every half millisecond or so and
notes the instant. Nothing is taken from the list and no worker runs. A job's lateness is the instant at which it was
seen in Redis minus the nominal time that it stands for. Jobs do not carry that time with most peers, so each schedule's
jobs are matched to its nominal times from the last backwards, each to the latest that it can stand for: where fires are
missing, this makes the peer look better than it is, never worse.

Peers come from the interpreter named by --peers or RQBENCH_PEERS (see peers/requirements.txt), else from this one.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from ground import HERE, beat, cpu_seconds, memory_mb, own_server, percentile, process, surroundings, table

from scheduler.readers import Reader
from shared.settings import Settings

PEERS = ("apscheduler_rq", "taskiq_redis_list", "rq_scheduler_own", "celery_beat", "celery_redbeat")
LOOK_SECONDS = 0.0005
DRAIN_SECONDS = 3
HEAD = ("", "p50 ms", "p99 ms", "max ms", "missing", "double", "CPU s", "server CPU s", "RSS MB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """So many schedules, `step` ms between their first fires, the first at `first` (ms), each fires `seconds` times."""

    name: str
    count: int
    first: int
    step: int
    seconds: int

    def nominal(self, number: int, at: int) -> int:
        return self.first + number * self.step + at * 1000

    @property
    def end(self) -> float:
        """The instant, in s, at which the last fire lies behind."""
        return self.first / 1000 + self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What came of one run; lateness in ms."""

    lateness: list[float]
    missing: int
    double: int
    cpu: float
    server_cpu: float
    rss: float

    def row(self, label: str) -> list[object]:
        late = [f"{percentile(self.lateness, share):.1f}" for share in (0.5, 0.99, 1)] if self.lateness else ["-"] * 3
        cpu = (f"{self.cpu:.2f}", f"{self.server_cpu:.2f}")
        return [label, *late, self.missing, self.double, *cpu, f"{self.rss:.0f}"]


class Watcher:
    """Notes when each entry of a queue was first seen."""

    def __init__(self, client: Any, key: str, grows: str) -> None:
        self._client = client
        self._key = key
        self._is_right = grows == "right"
        self.seen: list[tuple[float, bytes]] = []

    def until(self, instant: float) -> None:
        while (now := time.time()) < instant:
            self._look()
            time.sleep(min(LOOK_SECONDS, max(0.0, instant - now)))

    def _look(self) -> None:
        held = len(self.seen)
        start, stop = (held, -1) if self._is_right else (0, -held - 1)
        found = self._client.lrange(self._key, start, stop)
        now = time.time()
        self.seen += [(now, entry) for entry in (found if self._is_right else reversed(found))]


def watched(form: Form, watcher: Watcher, pid: int, server_pid: int | None, made_by: Any) -> Run:
    """Watch a program that has been started through all of a form. `made_by` is its adapter."""
    watcher.until(form.first / 1000)
    before = [cpu_seconds(pid), cpu_seconds(server_pid)]
    watcher.until(form.end)
    spent = [cpu_seconds(pid) - before[0], cpu_seconds(server_pid) - before[1]]
    rss = memory_mb(pid, "VmHWM")
    watcher.until(form.end + DRAIN_SECONDS)
    arrivals: dict[int, list[float]] = {number: [] for number in range(form.count)}
    for instant, entry in watcher.seen:
        arrivals[made_by.schedule_of(entry)].append(instant * 1000)
    late, missing, double = judged(form, arrivals, form.seconds + (0 if made_by.ENDS else DRAIN_SECONDS))
    return Run(lateness=late, missing=missing, double=double, cpu=spent[0], server_cpu=spent[1], rss=rss)


def judged(form: Form, arrivals: dict[int, list[float]], fires: int) -> tuple[list[float], int, int]:
    """Lateness of all fires, how many nominal times have no job, and how many jobs stand for none of their own.

    A program that knows no end goes on beyond the form: `fires` is how many each schedule may have.
    """
    late: list[float] = []
    double = 0
    for number, instants in arrivals.items():
        found = list(matched(form, number, [at for at in instants if at >= form.nominal(number, 0)], fires))
        late += [one for one in found if one is not None]
        double += found.count(None)
    return late, form.count * form.seconds - len(late), double


def matched(form: Form, number: int, instants: Sequence[float], fires: int) -> Iterator[float | None]:
    """The lateness of each job, from the last one backwards; None for one that is left without a nominal time.

    What stands for a nominal time beyond the form is none of it.
    """
    ceiling = fires
    for at in sorted(instants, reverse=True):
        ceiling = min(ceiling - 1, int((at - form.nominal(number, 0)) // 1000))
        if ceiling < 0:
            yield None
        elif ceiling < form.seconds:
            yield at - form.nominal(number, ceiling)


class RqbeatJobs:
    """What the adapters of peers tell, for rqbeat: the slug of a job's id is its schedule's, a number."""

    ENDS = True

    @staticmethod
    def schedule_of(entry: bytes) -> int:
        return int(entry.partition(b"-")[0])


def rqbeat_run(form: Form) -> tuple[Run, list[float]]:
    """The run as seen from outside, and the lateness that the ledger tells."""
    numbers = f"{form.count} {form.first} {form.step} {form.seconds}"
    with own_server() as (server, client, settings):
        with beat(server, "bench_app:every_second_app", RQBENCH_FORM=numbers) as pid:
            run = watched(form, Watcher(client, "rq:queue:default", "right"), pid, server.pid, RqbeatJobs)
        return run, ledger_lateness(client, settings)


def ledger_lateness(client: Any, settings: Settings) -> list[float]:
    """What the ledger tells: decided minus due, of all fires."""
    entries = Reader(client, settings.keys).history(outcome="enqueued", most=10_000_000)
    return [float(entry.decided - entry.due) for entry in entries]


def peer_run(peer: ModuleType, python: str, form: Form) -> Run | str:
    """The run, or the last words of a peer that ended by itself."""
    numbers = map(str, (form.count, form.first, form.step, form.seconds))
    with own_server() as (server, client, _settings):
        folder = server.socket.parent
        command = [python, str(HERE / "peers" / f"{peer.__name__}.py"), server.url, *numbers]
        with process(command, folder / "peer.log", cwd=HERE / "peers", RQBENCH_FOLDER=folder) as pid:
            try:
                return watched(form, Watcher(client, peer.KEY, peer.GROWS), pid, server.pid, peer)
            except (LookupError, OSError):  # it has ended by itself
                said = (folder / "peer.log").read_text(errors="replace").splitlines()
                return said[-1] if said else "it said nothing"


@contextmanager
def peer_path() -> Iterator[None]:
    """Peers' files import each other by their bare names."""
    sys.path.insert(0, str(HERE / "peers"))
    try:
        yield
    finally:
        sys.path.pop(0)


def load(name: str) -> ModuleType:
    with peer_path():
        return importlib.import_module(name)


def versions(python: str, packages: Sequence[str]) -> str | None:
    """The versions that a peer needs, or None where one of them is absent."""
    code = "import sys, json, importlib.metadata as m; print(json.dumps([m.version(n) for n in sys.argv[1:]]))"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, check=False)
    if done.returncode:
        return None
    return ", ".join(f"{name} {found}" for name, found in zip(packages, json.loads(done.stdout), strict=True))


def form_of(name: str, rate: int, seconds: int) -> Form:
    """A form that begins at a whole second, soon enough to wait for and late enough to store all schedules before."""
    first = (int(time.time()) + 6 + rate // 200) * 1000
    return Form(name=name, count=rate, first=first, step=1000 // rate if name == "spread" else 0, seconds=seconds)


def measure(name: str, rate: int, seconds: int, chosen: Sequence[str], python: str) -> dict[str, Run]:
    """One form at one rate, rqbeat first, then each peer; prints a table."""
    runs: dict[str, Run] = {}
    runs["rqbeat"], ledger = rqbeat_run(form_of(name, rate, seconds))
    rows = [runs["rqbeat"].row("rqbeat")]
    told = [f"{percentile(ledger, share):.0f}" for share in (0.5, 0.99, 1)]
    rows.append(["rqbeat, by its ledger", *told, *["" for _ in HEAD[4:]]])
    for peer in map(load, chosen):
        if name in peer.FORMS and versions(python, peer.NEEDS):
            came = peer_run(peer, python, form_of(name, rate, seconds))
            if isinstance(came, str):
                rows.append([f"{peer.LABEL}: ended with {came}", *["-" for _ in HEAD[1:]]])
            else:
                runs[peer.LABEL] = came
                rows.append(came.row(peer.LABEL))
    print(f"\n{rate:,} fires a second for {seconds} s, {name}:\n\n{table(HEAD, rows)}", flush=True)
    return runs


def verdict(runs: dict[str, Run]) -> Iterator[str]:
    """What is asked for: p99 below 20 ms, and at most a tenth of APScheduler's."""
    mine = percentile(runs["rqbeat"].lateness, 0.99)
    yield f"p99 of rqbeat is {mine:.1f} ms: {'below' if mine < 20 else 'NOT below'} 20 ms"
    if other := runs.get("APScheduler + RQ"):
        theirs = percentile(other.lateness, 0.99)
        is_kept = "at most" if mine <= theirs / 10 else "MORE than"
        yield f"that is {is_kept} a tenth of APScheduler's {theirs:.1f} ms ({mine / theirs:.3f} of it)"


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="lateness under a sustained rate")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--slow-rate", type=int, default=100)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--slow-seconds", type=int, default=30)
    parser.add_argument("--peers", default=os.environ.get("RQBENCH_PEERS", sys.executable))
    parser.add_argument("--only", nargs="*", choices=PEERS, default=PEERS)
    found = parser.parse_args()
    found.peers = str(Path(found.peers).absolute())  # peers are started in a folder of their own
    return found


def main() -> None:
    chosen = options()
    with own_server() as (_server, client, _settings):
        print(surroundings(client))
    for peer in map(load, chosen.only):
        found = versions(chosen.peers, peer.NEEDS)
        print(f"- {peer.LABEL}: {found or 'absent, left out: ' + ', '.join(peer.NEEDS)}")
    full = {}
    for rate, seconds in ((chosen.rate, chosen.seconds), (chosen.slow_rate, chosen.slow_seconds)):
        for name in ("spread", "same"):
            full[rate, name] = measure(name, rate, seconds, chosen.only, chosen.peers)
    print()
    for name in ("spread", "same"):
        for sentence in verdict(full[chosen.rate, name]):
            print(f"- {chosen.rate:,} a second, {name}: {sentence}")


if __name__ == "__main__":
    main()
