"""The jobs under test, in a worker that is killed once at a named point of a run.

The points are where a kill makes a difference: popped, registered, forked, claimed, returned, saved; of a run that
raised, and is to be tried again: failing, retrying, saved; in a marked job: started, inside. The victim is the horse or
the child alone, or the worker with it. A pool has an id that is popped and not claimed only when it had to wait for it.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import bench_jobs

from worker.guard.ends import EndGuard
from worker.guard.job import GuardedJob
from worker.guard.loop import GuardedWorker
from worker.guard.run import RunGuard
from worker.pool.child import Child

scheduler = bench_jobs.scheduler

POINT, VICTIM, ROW = (os.environ[f"TEST_{name}"] for name in ("POINT", "VICTIM", "ROW"))
WORKER = os.getpid()


def die_once() -> None:
    if not bench_jobs.store().set(f"killed:{ROW}", time.time(), nx=True):
        return
    if VICTIM == "both":
        os.kill(WORKER, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


def dying(owner: type, method: str, *, after: bool) -> None:
    """Have a method die once, before it does anything or after it has done all."""
    original: Callable[..., Any] = getattr(owner, method)

    def faulty(self: Any, *args: Any, **kwargs: Any) -> Any:
        if not after:
            die_once()
        result = original(self, *args, **kwargs)
        if after:
            die_once()
        return result

    setattr(owner, method, faulty)


match POINT:
    case "popped":
        dying(GuardedWorker, "prepare_execution", after=False)
        dying(Child, "_claim", after=False)
    case "registered":
        dying(GuardedWorker, "prepare_execution", after=True)
    case "forked":
        dying(RunGuard, "perform_job", after=False)
    case "claimed":
        dying(Child, "_started", after=False)
        dying(GuardedJob, "perform", after=False)
    case "returned":
        dying(GuardedJob, "perform", after=True)
    case "failing":
        dying(GuardedJob, "retry", after=False)
    case "retrying":
        dying(GuardedJob, "retry", after=True)
    case "saved":
        dying(EndGuard, "_record_end", after=False)
        dying(Child, "_hand_over", after=True)
    case "started" | "inside":
        bench_jobs.at = lambda point: die_once() if point == POINT else None
