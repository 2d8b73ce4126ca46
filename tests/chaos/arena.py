"""The arena: schedules that fire ten times a second between two instants, beats that decide them, and the end of a run.

Beats are `rqbeat run` processes as they are shipped. The schedules are stored before the first beat starts, so that
the beats find what they declare, and what is expected is what the triggers yield, whatever a beat's start took.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

import redis

from scheduler.admin import Admin
from scheduler.ports import LedgerEntry
from scheduler.readers import Reader
from scheduler.schedule import Schedule, build
from scheduler.triggers import IntervalTrigger, Trigger
from shared import Job
from shared.clock import SystemClock
from shared.keys import Keys
from shared.redisio.connection import connect
from tests.chaos.checker import Verdict, gather, judge
from tests.integration.conftest import Program, wait_for

ROOT = Path(__file__).parents[2]
SCALE = float(os.environ.get("RQTEST_SCALE", "1"))
"""How much longer than on every commit: 20 for a release, 100 for a night."""

RQBEAT: tuple[str, ...] = ("-m", "scheduler.cli")
OPTIONS: dict[str, Any] = {"misfire": "all", "overlap": "allow", "catchup_limit": 10_000}
APP = """
import os
import time
from scheduler import IntervalTrigger, SchedulerManager
from shared import Job, Retry

scheduler = SchedulerManager()

class Tick(Job):
    name = "chaos-tick"

    def handle(self, n):
        import redis
        with redis.Redis.from_url(os.environ["CHAOS_RUNS_URL"]) as client:
            client.rpush("chaos:runs", f"{{self.ctx.key}} {{time.time()}}")
        time.sleep(float(os.environ.get("CHAOS_RUN_SECONDS", 0)))

time.sleep(max(0, float(os.environ.get("CHAOS_BARRIER", 0)) - time.time()))
for n in range({count}):
    trigger = IntervalTrigger({periods}[n % {kinds}], start={start}, end={end})
    scheduler.schedule(Tick, trigger, id=f"tick-{{n}}", args=[n], **{options})
"""


class Tick(Job):
    """The same job as the app's, so that both make the same definitions."""

    name = "chaos-tick"

    def handle(self, n: int) -> None: ...


def rounds(count: int) -> int:
    """So many rounds, times the scale."""
    return max(1, round(count * SCALE))


class Arena:
    """One Redis, its schedules and its beats. `url` is where beats go; the arena itself goes to the server.

    `runs` is the URL where jobs note that they ran: the same server, unless that is one that forgets.
    """

    def __init__(self, direct: str, folder: Path) -> None:
        self.url = self.direct = direct
        self.folder = folder
        self.keys = Keys()
        self.client: redis.Redis = connect(direct, name="arena")
        self.triggers: dict[str, Trigger] = {}
        self.options: dict[str, Any] = dict(OPTIONS)
        self.beats: list[Program] = []
        self.program = RQBEAT
        self.end = 0.0
        self.has_workers = False
        self.runs = direct
        self._started: list[Program] = []
        self._newest: LedgerEntry | None = None
        self._decided = 0

    def declare(
        self, seconds: float = 3600, *, count: int = 10, period: float | Sequence[float] = 0.1, lead: float = 0.5
    ) -> None:
        """Store schedules that begin `lead` seconds from now and end `seconds` later, and write the app's module.

        Several periods are dealt out in turn. A test that is driven by events leaves the end open: it is checked up to
        the moment when it calls `finish`.
        """
        start = round(time.time() + lead, 1)
        self.end = end = round(start + seconds, 1)
        periods = [period] if isinstance(period, int | float) else list(period)
        kinds = len(periods)
        text = APP.format(count=count, periods=periods, kinds=kinds, start=start, end=end, options=self.options)
        (self.folder / "app.py").write_text(text)
        triggers = [IntervalTrigger(one, start=start, end=end) for one in periods]
        self.store([self.tick(n, triggers[n % kinds]) for n in range(count)])

    def tick(self, n: int, trigger: Trigger, **options: Any) -> Schedule:
        return build(Tick, trigger, {"id": f"tick-{n}", "args": [n], **self.options, **options})

    def store(self, schedules: list[Schedule]) -> None:
        """Store schedules, and expect what their triggers yield."""
        Admin(self.client, self.keys, SystemClock(), "arena").upsert(schedules)
        self.triggers |= {schedule.id: schedule.trigger for schedule in schedules}

    def start(self, count: int = 1, **environ: str) -> None:
        """Add beats that will be running."""
        self.beats += [self.beat(**environ) for _ in range(count)]

    def beat(self, url: str | None = None, **environ: str) -> Program:
        """Start one beat, which the arena does not count among its own."""
        return self.spawn("run", "app:scheduler", "--url", url or self.url, **environ)

    def spawn(self, *arguments: str, **environ: str) -> Program:
        output = self.folder / f"output-{len(self._started)}.log"
        environ = {"PYTHONPATH": str(ROOT), "CHAOS_RUNS_URL": self.runs, **environ}
        program = Program(list(arguments), self.folder, output, environ, self.program)
        self._started.append(program)
        return program

    def replace(self, beat: Program, **environ: str) -> None:
        """Kill a beat and start another in its place."""
        beat.kill()
        self.beats[self.beats.index(beat)] = self.beat(**environ)

    def leader(self) -> Program | None:
        """The beat that holds the lease, if it is one of ours that lives."""
        pid = self._leading_pid()
        return next((beat for beat in self.beats if beat.process.pid == pid), None)

    def has_leader(self) -> Program:
        """The leader, once there is one that fires."""
        return wait_for(self.leader, 15, "a leader")

    def proc(self, index: int) -> Path:
        """Where the system tells of a beat."""
        return Path(f"/proc/{self.beats[index].process.pid}")

    def standbys(self) -> list[Program]:
        return [beat for beat in self.beats if beat is not self.leader()]

    def bury_leader(self) -> None:
        """Give back the lease of a leader that is dead, as if three seconds had passed for a standby."""
        if self._leading_pid() not in {beat.process.pid for beat in self.beats}:
            self.client.hset(self.keys.leader, "owner", "")
            self.client.publish(self.keys.wake, "released")

    def decided(self) -> int:
        """How many entries the ledger has had: counted on from the newest that was there the last time."""
        most = 100
        while len(self._news(most)) == most:
            most *= 10
        news = self._news(most)
        self._decided += len(news)
        self._newest = news[0] if news else self._newest
        return self._decided

    def _news(self, most: int) -> list[LedgerEntry]:
        """The entries, of so many latest ones, that are newer than what was seen before."""
        entries = Reader(self.client, self.keys).history(None, most=most)
        return list(takewhile(lambda entry: entry != self._newest, entries))

    def goes_on(self, more: int = 20, within: float = 15) -> None:
        """Wait until so many more decisions are made."""
        before = self.decided()
        wait_for(lambda: self.decided() >= before + more, within, lambda: f"{more} more decisions\n{self.logs()}")

    def is_decided(self, until: float) -> bool:
        """Whether every schedule is decided up to an instant."""
        head: Any = self.client.zrange(self.keys.timetable, 0, 0, withscores=True)
        return not head or head[0][1] > until * 1000

    def ticks(self) -> Iterator[float]:
        """Until the schedules end: the seconds that are left, asked for again and again."""
        while (left := self.end - time.time()) > 0:
            yield left

    def history(self) -> list[LedgerEntry]:
        """The whole ledger. Raises StoreError."""
        return Reader(self.client, self.keys).history(None, most=1_000_000)

    def born(self) -> int:
        """From when on the schedules, as they are stored now, are decided (ms)."""
        return min(Reader(self.client, self.keys).schedule(name).since for name in self.triggers)

    def finish(self, within: float = 20, since: int = 0) -> Verdict:
        """Wait until all is decided, stop the beats, and check. Fails when the invariants do not hold."""
        verdict = self.judge(within, since)
        assert verdict.violations == [], self.logs()
        return verdict

    def judge(self, within: float = 20, since: int = 0) -> Verdict:
        """What the checker says of all up to now, or to the end of the schedules, once that is decided.

        Stops the beats, none of which may have ended by itself.
        """
        until = min(self.end, time.time())
        wait_for(lambda: self.is_decided(until), within, lambda: f"decisions up to {until}\n{self.logs()}")
        self.stop_beats()
        runs = self.ran() if self.has_workers else None
        found = gather(self.client, self.keys, list(self.triggers), runs)
        return judge(found, self.triggers, int(until * 1000) - 1, since)

    def stop_beats(self) -> None:
        """SIGTERM to every beat, which all must still be running."""
        for beat in self.beats:
            beat.says("now ", "Redis answers again")
        for beat in self.beats:
            beat.process.terminate()
        assert [beat.ends() for beat in self.beats] == [0] * len(self.beats), self.logs()

    def ran(self) -> Counter[str]:
        """What workers ran, and how often."""
        return Counter(key for key, _ in self.run_times())

    def run_times(self) -> list[tuple[str, float]]:
        """What workers ran, each with when it began."""
        with connect(self.runs) as client:
            rows: Any = client.lrange("chaos:runs", 0, -1)
        return [(key, float(at)) for key, at in (row.decode().split() for row in rows)]

    def logs(self) -> str:
        """The ends of what all programs wrote."""
        return "\n".join(f"--- {i}\n{program.text[-1500:]}" for i, program in enumerate(self._started[-12:]))

    def said(self, words: str) -> int:
        """How often these words were written by all programs together."""
        return sum(program.text.count(words) for program in self._started)

    def close(self) -> None:
        """Kill what still runs."""
        for program in self._started:
            if program.process.poll() is None:
                os.killpg(program.process.pid, signal.SIGKILL)
                program.process.wait()
        self.client.close()

    def _leading_pid(self) -> int:
        owner: Any = self.client.hget(self.keys.leader, "owner") or b""
        return int(owner.split(b":")[1]) if owner else 0


ArenaOn = Callable[..., Arena]
