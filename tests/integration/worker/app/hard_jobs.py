"""Jobs that are hard to end, to survive or to count. The jobs of `bench_jobs` are at hand in the same app."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from functools import partial
from typing import Any

import bench_jobs
from bench_jobs import Failing, Sync, effect

from shared import Job, Retry
from shared.redisio.runs import Runs
from worker import rate_limit_middleware, retry_middleware

__all__ = ["Failing", "Sync"]

scheduler = bench_jobs.scheduler

LONG = 600


class Late(Job):
    """Lasts longer than it may; notes when each attempt began, for it is tried twice."""

    name = "late"
    timeout = 1
    retry = Retry(max=1)

    def begin(self) -> None:
        effect(f"{self.name}-began", str(time.time()))


class Sleeping(Late):
    name = "sleeping"

    def handle(self) -> None:
        self.begin()
        time.sleep(LONG)


class Spinning(Late):
    name = "spinning"

    def handle(self) -> None:
        self.begin()
        while True:
            pass


class Awaiting(Late):
    name = "awaiting"

    async def handle(self) -> None:
        self.begin()
        await asyncio.sleep(LONG)


class SpinningInALoop(Late):
    name = "spinning-in-a-loop"

    async def handle(self) -> None:
        self.begin()
        while True:
            pass


class Waiting(Late):
    """For a program of its own, which has left the group and the session."""

    name = "waiting"

    def handle(self) -> None:
        self.begin()
        program = [sys.executable, "-c", f"import time; time.sleep({LONG})"]
        with subprocess.Popen(program, start_new_session=True) as child:
            effect("detached", str(child.pid))


class Stubborn(Late):
    """Tries again by itself: not after the end of its time."""

    name = "stubborn"
    middleware = (partial(retry_middleware, max_attempts=100, base_delay=0.01),)

    def handle(self) -> None:
        self.begin()
        time.sleep(LONG)


class SwallowingTwice(Late):
    name = "swallowing-twice"

    def handle(self) -> None:
        self.begin()
        while True:
            try:
                time.sleep(LONG)
            except Exception:  # noqa: BLE001 - the fault under test
                effect("swallowed")


class Threaded(Late):
    """Leaves a thread behind that the event loop waits for."""

    name = "threaded"

    async def handle(self) -> None:
        self.begin()
        await asyncio.to_thread(time.sleep, LONG)


class Deep(Late):
    """In C, where no exception reaches."""

    name = "deep"
    retry = None

    def handle(self) -> None:
        self.begin()
        hashlib.pbkdf2_hmac("sha256", b"x", b"y", 10**9)


class Leaky(Job):
    """Leaves programs behind, in a session of their own, some ended and some not; ends in one of four ways."""

    name = "leaky"

    def handle(self, number: int) -> int:
        for seconds in ("0", str(LONG)):
            detached = f"import subprocess as s; print(s.Popen(['sleep', '{seconds}'], stdout=s.DEVNULL).pid)"
            command = [sys.executable, "-Sc", detached]
            done = subprocess.run(command, start_new_session=True, check=True, stdout=subprocess.PIPE, text=True)
            effect("detached", done.stdout.strip())
        if number % 4 == 1:
            raise ValueError(number)
        if number % 4 == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        if number % 4 == 3:
            os._exit(3)
        return number


class Forking(Job):
    """A copy of it goes its own way: to the end, out by an exit code, or by an error. Returns how the copy ended."""

    name = "forking"
    timeout = 10

    def handle(self, how: str) -> int:
        effect("forking")
        if os.fork():
            return os.waitstatus_to_exitcode(os.wait()[1])
        if how == "exit":
            sys.exit(3)
        if how == "raise":
            raise ValueError(how)
        return -1


class Saving(Job):
    """Saves a page at a time; is killed once, before, inside or after its second saving."""

    name = "saving"
    retry = Retry(max=1)

    def handle(self, kill_at: str) -> list[int]:
        for page in range(self.ctx.checkpoint.get("page", 0) + 1, 4):
            effect("page", str(page))
            self._save(page, kill_at if page == 2 and self.ctx.attempt == 1 else "")
        return [self.ctx.checkpoint["page"], self.ctx.attempt]

    def _save(self, page: int, kill_at: str) -> None:
        if kill_at == "before":
            die()
        if kill_at == "inside":
            Runs._set = dying_after(Runs._set)  # type: ignore[method-assign]
        self.ctx.save_checkpoint(page=page)
        if kill_at == "after":
            die()


class Resumed(Job):
    """Goes on from what was saved before it was told to stop."""

    name = "resumed"
    retry = Retry(max=1)

    def handle(self) -> list[int]:
        if self.ctx.attempt == 1:
            self.ctx.save_checkpoint(page=7)
            effect("saved")
            time.sleep(LONG)
        return [self.ctx.attempt, self.ctx.checkpoint["page"]]


class Hungry(Job):
    name = "hungry"
    retry = Retry(max=1)

    def handle(self) -> None:
        effect("hungry")
        eaten = []
        while True:
            eaten.append(b"x" * 2**20)


class Punctual(Job):
    """Fails once, and notes when it was tried."""

    name = "punctual"
    retry = Retry(max=1, backoff=1)

    def handle(self) -> None:
        effect("punctual", f"{self.ctx.key} {time.time()}")
        if self.ctx.attempt == 1:
            raise ConnectionError("again")


class Unlucky(Job):
    """Fails once, after a while, and writes nothing itself."""

    name = "unlucky"
    retry = Retry(max=1, backoff=1)

    def handle(self, seconds: float) -> int:
        if self.ctx.attempt == 1:
            time.sleep(seconds)
            raise ConnectionError("again")
        return self.ctx.attempt


class Telling(Job):
    name = "telling"
    retry = Retry(max=1)

    def handle(self) -> list[Any]:
        if self.ctx.attempt == 1:
            raise ConnectionError("again")
        return [self.ctx.attempt, self.ctx.last_error, self.ctx.key]


class Metered(Job):
    name = "metered"
    middleware = (partial(rate_limit_middleware, max_per_second=20),)

    def handle(self) -> None:
        effect("metered", str(time.time()))


class Slept(Job):
    name = "slept"
    retry = Retry(max=1)

    def handle(self, seconds: float) -> None:
        effect("slept", self.ctx.key)
        time.sleep(seconds)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_after(act: Any) -> Any:
    def doing(*args: Any) -> None:
        act(*args)
        die()

    return doing
