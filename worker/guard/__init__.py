"""The guard over RQ: subclasses of its `Job` and `Worker`, as small as they can be, each rule with the trap it closes.

RQ owns execution: registries, results, heartbeats, the fork. What it does not do, and this package does:

    payload    RQ runs any function that a payload names, and its pickles    → `job`: one callable, our codec
    record     a field that does not parse ends the worker, with exit 0      → `job`: judged first, else refused
    start      an id on two lists runs twice; a kill before the start fails  → `run`: claimed in one step, else put back
    end        a kill inside `Job.retry` loses the job                       → `job`: one transaction
    time-out   one that is swallowed holds the worker for another minute     → `timeout`: then the horse is killed
    death      an orphan horse runs on beside its replacement                → `run`: it dies with its parent
    idle       RQ blocks 405 s, so it neither cleans nor stops in time       → `loop`: turns of a second
    recovery   810 s, and one junk record ends it for a quarter of an hour   → `recovery`: within a minute, one by one

Only this package and `worker.runner` import rq.
"""

from __future__ import annotations

from worker.guard.job import GuardedJob, PayloadSerializer
from worker.guard.loop import GuardedWorker

__all__ = ["GuardedJob", "GuardedWorker", "PayloadSerializer"]
