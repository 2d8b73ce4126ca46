"""The vocabulary that the beat and the workers agree on: what a job is, how it travels, what its keys are called.

Rule of this package: it imports neither `scheduler` nor `worker`, and nothing happens when it is imported: no
connection, no environment read, no logging set-up. Its own arrows go down this list:

    job                     the user's `Job`: a façade over everything below
    outbox                  the port through which a dispatched job leaves the process
    redisio                 the only place that imports redis
    app, settings           what to load, and where values come from: flag, environment, file, default
    payload, context        what travels, and what a running job may ask
    registry, options       which names may be run, and how RQ is to handle a job
    codec, retry, ids, keys, instants, installation, process, clock, errors
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shared.job import Job, JobHandle
    from shared.retry import Retry

__all__ = ["Job", "JobHandle", "Retry"]

_HOMES = {"Job": "shared.job", "JobHandle": "shared.job", "Retry": "shared.retry"}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'shared' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
