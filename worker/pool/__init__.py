"""`--mode pool`: RQ's worker with one child that runs job after job, instead of a fork for each.

The parent is the worker that RQ sees: its name, heartbeats, commands, maintenance. The child takes jobs itself, under
that name, and says on a board of shared memory what it is at. So Redis is asked once per job, and whoever dies leaves
word of what it held.

    board     what parent and child tell each other; knows neither RQ nor Redis
    child     takes, runs, ends; everything about one job that returns
    worker    starts the child, watches it, gives what it left behind an end

killed                          what becomes of the job
child, popped or claimed        the parent puts it back at once, no attempt used
child, in the run               the parent records a failed attempt at once, and starts another child
child, its end not yet written  a failed attempt: the handler may have returned
both                            popped: put back by maintenance; else the lease ends, and it records a failed attempt
"""

from __future__ import annotations

from worker.pool.worker import PoolWorker

__all__ = ["PoolWorker"]
