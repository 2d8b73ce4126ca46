"""An app in a worker that something goes wrong in, once, at the time named in the environment: a fork that the system
refuses, or an error of the worker's own."""

from __future__ import annotations

import os
from typing import Any

import hard_jobs

from worker.guard.loop import GuardedWorker

scheduler = hard_jobs.scheduler

fork, admit = os.fork, GuardedWorker._admit


def refused() -> int:
    os.fork = fork
    raise BlockingIOError(11, "Resource temporarily unavailable")


def failing(self: Any, entry: bytes) -> Any:
    if hard_jobs.bench_jobs.store().set("failed-once", 1, nx=True):
        raise RuntimeError("nobody expects this")
    return admit(self, entry)


if os.environ["TEST_WRONG"] == "fork":
    os.fork = refused
else:
    GuardedWorker._admit = failing  # type: ignore[method-assign]
