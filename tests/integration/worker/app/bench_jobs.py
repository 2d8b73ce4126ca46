"""Jobs under test. What they do outside is counted in Redis, under `effects:<name>`."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from functools import partial
from itertools import repeat
from typing import Any

import redis

from shared import Job, Retry
from shared.registry import middleware
from shared.settings import load
from worker import retry_middleware, timeout_middleware

scheduler = object()


def store() -> redis.Redis:
    return redis.Redis.from_url(load().url)


def effect(name: str, value: str = "1") -> None:
    store().rpush(f"effects:{name}", value)


class Sync(Job):
    name = "sync"

    def handle(self, value: Any = None) -> Any:
        effect("sync", self.ctx.key)
        return value


class SyncRetried(Sync):
    name = "sync-retried"
    retry = Retry(max=1)


class Async(Job):
    name = "async"

    async def handle(self, value: Any = None) -> Any:
        await asyncio.sleep(0)
        return value


class About(Job):
    name = "about"

    def handle(self) -> dict[str, Any]:
        ctx = self.ctx
        return {"key": ctx.key, "attempt": ctx.attempt, "schedule": ctx.schedule, "nominal": ctx.nominal,
                "kind": ctx.kind, "deadline": ctx.deadline, "last_error": ctx.last_error,
                "checkpoint": dict(ctx.checkpoint)}  # fmt: skip


class Unportable(Job):
    name = "unportable"
    retry = Retry(max=2)

    def handle(self) -> object:
        effect("unportable")
        return object()


class Failing(Job):
    name = "failing"

    def handle(self) -> None:
        effect("failing", self.ctx.key)
        raise ValueError("no luck")


class Flaky(Failing):
    name = "flaky"
    retry = Retry(max=2, backoff=1, factor=1)


class Picky(Failing):
    name = "picky"
    retry = Retry(max=2, on=(KeyError,))


class Perishable(Job):
    name = "perishable"
    retry = Retry(max=2)

    def handle(self) -> None:
        effect("perishable")

    def on_expired(self) -> None:
        effect("on_expired", self.ctx.key)


class Slow(Job):
    name = "slow"

    def handle(self, seconds: float, mark: str = "slow") -> str:
        effect(f"{mark}-started", f"{self.ctx.attempt}:{os.getpid()}")
        time.sleep(seconds)
        effect(f"{mark}-ended")
        return "slept"


class Quiet(Job):
    """Slow, and writes nothing itself."""

    name = "quiet"

    def handle(self, seconds: float) -> int:
        time.sleep(seconds)
        return self.ctx.attempt


class Forgotten(Job):
    name = "forgotten"

    def handle(self, luck: bool) -> None:
        effect("forgotten", self.ctx.key)
        if not luck:
            raise ValueError("no luck")


class SlowRetried(Slow):
    name = "slow-retried"
    retry = Retry(max=1)


class Suicidal(Job):
    name = "suicidal"
    retry = Retry(max=3)

    def handle(self) -> None:
        effect("suicidal")
        os.kill(os.getpid(), signal.SIGKILL)


class Leaving(Job):
    name = "leaving"

    def handle(self) -> None:
        os._exit(0)


class Grouped(Job):
    name = "grouped"

    def handle(self) -> None:
        raise ExceptionGroup("two at once", [ValueError(1), ExceptionGroup("more", [KeyError(2)])])


class Mailer(Job):
    """Sends once; where it is killed is said in its argument."""

    name = "mailer"
    retry = Retry(max=2)

    def handle(self, kill_at: str, on_doubt: Any = "raise") -> str:
        self._maybe_die(kill_at, "before")
        with self.ctx.once("mail", on_doubt) as first:
            if first:
                effect("mail", self.ctx.key)
                self._maybe_die(kill_at, "inside")
                self._maybe_raise(kill_at)
        self._maybe_die(kill_at, "after")
        return f"attempt {self.ctx.attempt}"

    def _maybe_die(self, kill_at: str, point: str) -> None:
        if kill_at == point and self.ctx.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    def _maybe_raise(self, kill_at: str) -> None:
        if kill_at == "raise" and self.ctx.attempt == 1:
            raise ConnectionError("the mail server hung up")


def at(point: str) -> None:
    """A point of `Marked`, for an app that is killed there."""


class Marked(Job):
    """Once-marked, and killed where the app says."""

    name = "marked"

    def handle(self, luck: bool = True) -> int:
        at("started")
        effect("marked", self.ctx.key)
        with self.ctx.once("mail") as first:
            if first:
                at("inside")
                if not luck and self.ctx.attempt == 1:
                    raise ConnectionError("the mail server hung up")
                effect("mail", self.ctx.key)
        return self.ctx.attempt


class MarkedRetried(Marked):
    name = "marked-retried"
    retry = Retry(max=1)


class MarkedOften(Marked):
    name = "marked-often"
    retry = Retry(max=20)


class Resuming(Job):
    name = "resuming"
    retry = Retry(max=3)

    def handle(self) -> list[int]:
        page = self.ctx.checkpoint.get("page", 0) + 1
        effect("page", str(page))
        self.ctx.save_checkpoint(page=page)
        if page < 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return [page, self.ctx.attempt]


class Swallowing(Job):
    name = "swallowing"
    timeout = 1

    def handle(self) -> None:
        for _ in range(300):
            try:
                time.sleep(0.1)
            except Exception:  # noqa: BLE001 - the fault under test
                effect("swallowed")


class WithChild(Job):
    name = "with-child"
    timeout = 1

    def handle(self) -> None:
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        effect("child", str(child.pid))
        time.sleep(600)


class LeavingBehind(Job):
    """Starts a program whose parent ends at once, and returns."""

    name = "leaving-behind"

    def handle(self) -> None:
        quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
        text = f"import subprocess; print(subprocess.Popen(['sleep', '600'], {quiet}).pid)"
        effect("behind", subprocess.run([sys.executable, "-c", text], capture_output=True, check=True).stdout.decode())


class Deaf(Job):
    """Holds the interpreter: no signal handler of Python's runs meanwhile."""

    name = "deaf"
    timeout = 1

    def handle(self) -> None:
        deque(repeat(None, 10**12), maxlen=0)


class AsyncSleeper(Job):
    name = "async-sleeper"
    timeout = 1

    async def handle(self) -> None:
        await asyncio.sleep(600)


async def shouting(handler: Any, job: Any) -> Any:
    async def wrapped() -> Any:
        effect("order", "schedule")
        return await handler()

    return wrapped


middleware.register("shouting", shouting)


async def whispering(handler: Any, job: Any) -> Any:
    async def wrapped() -> Any:
        effect("order", "class")
        return await handler()

    return wrapped


class Wrapped(Job):
    name = "wrapped"
    middleware = (whispering, partial(timeout_middleware, seconds=30.0))

    def handle(self) -> str:
        effect("order", "handler")
        return "done"


class QuickRetry(Job):
    name = "quick-retry"
    middleware = (partial(retry_middleware, max_attempts=3, base_delay=0.01),)

    async def handle(self) -> int:
        effect("tries")
        if store().llen("effects:tries") < 3:
            raise ConnectionError("again")
        return self.ctx.attempt
