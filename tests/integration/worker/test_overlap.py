"""Schedules whose runs last longer than their period, with a real beat and real workers, under each policy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from scheduler.readers import Reader
from shared.keys import Keys

BODY = """
import os, time
import redis

class Busy(Job):
    name = "busy"
    timeout = 60

    def handle(self, name, seconds):
        client = redis.Redis.from_url(os.environ["RQBEAT_REDIS_URL"])
        client.rpush("effects:" + name, f"{self.ctx.key} {time.time()} {os.getpid()}")
        time.sleep(seconds)
        client.rpush("effects:" + name + "-ended", self.ctx.key)

class Luckless(Job):
    name = "luckless"

    def handle(self):
        raise ValueError("no luck")

start = int(time.time()) + 2
for policy in ("allow", "skip", "buffer"):
    scheduler.schedule(Busy, IntervalTrigger(0.6, start=start, end=start + 3.5), id=policy, overlap=policy,
                       max_instances=2 if policy == "allow" else 1, args=[policy, 1.5], queue="long")
scheduler.schedule(Busy, IntervalTrigger(2, start=start, end=start + 4), id="replace", overlap="replace",
                   args=["replace", 600], queue="stubborn")
scheduler.schedule(Luckless, IntervalTrigger(0.5, start=start), id="luckless", pause_after_failures=3)
"""


POLICIES = {"allow": (2, "skipped overlap"), "skip": (1, "skipped overlap"), "buffer": (1, "coalesced buffer")}
"""The most runs at once, and what becomes of the fires that are not enqueued."""


@pytest.fixture
def reader(client: redis.Redis, keys: Keys) -> Reader:
    return Reader(client, keys)


@pytest.fixture
def beat(spawn: Any, app: Callable[[str], str], redis_url: str, workers: Any, tmp_path: Path) -> Any:
    """A beat that declares the schedules, and six workers."""
    environ = {"RQBEAT_APP": "app:scheduler", "PYTHONPATH": f"{tmp_path}:{workers.python_path}"}
    beat = spawn("run", app(BODY), RQBEAT_REDIS_URL=redis_url)
    workers.start("long", "-n", "4", **environ)
    workers.start("stubborn", "default", **environ)
    return beat


def most_at_once(effects: Any, name: str) -> int:
    """The most runs at the same moment, each of 1.5 s."""
    starts = [float(entry.split()[1]) for entry in effects(name)]
    return max(sum(other <= at < other + 1.5 for other in starts) for at in starts)


def outcomes(reader: Reader, schedule: str) -> Counter[str]:
    """How many nominal times were decided how."""
    found: Counter[str] = Counter()
    for entry in reader.history(schedule, most=1000):
        found[f"{entry.outcome} {entry.reason or ''}".strip()] += entry.count
    return found


def test_to_overlap_longer_than_period(
    beat: Any, reader: Reader, effects: Any, eventually: Callable[..., Any], status: Any
) -> None:
    """Period 0.6 s, run 1.5 s, six fires; and one whose run would never end. Every fire is told of, once."""
    eventually(lambda: len(effects("replace")) == 2, 20)
    old, new = (entry.split()[0] for entry in effects("replace"))
    eventually(lambda: (status(old), status(new)) == ("stopped", "started"), 5)
    eventually(lambda: reader.schedule("luckless").status == "paused", 15)
    for name, (at_once, otherwise) in POLICIES.items():
        eventually(lambda name=name: sum(outcomes(reader, name).values()) == 6)
        found = outcomes(reader, name)
        eventually(lambda name=name, found=found: len(effects(f"{name}-ended")) == found["enqueued"], 15)
        print(name, found)
        assert (most_at_once(effects, name), found.keys()) == (at_once, {"enqueued", otherwise})
    assert beat.process.poll() is None
