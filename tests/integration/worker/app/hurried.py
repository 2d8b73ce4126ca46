"""An app whose worker looks around more often, and whose leases are that much shorter: for tests of what takes a minute
with the figures as shipped. It serves the app that is named in the environment."""

from __future__ import annotations

import importlib
import os

from worker.guard import beats, loop, recovery, run
from worker.pool import child, worker

FASTER = {
    "BEAT_SECONDS": 0.5,
    "LEASE_SECONDS": 3,
    "MAINTENANCE_SECONDS": 0.5,
    "OVERDUE_SECONDS": 3.0,
    "PATIENCE_SECONDS": 0.5,
    "WATCH_SECONDS": 1,
}

for module in (beats, loop, recovery, run, child, worker):
    for name in FASTER.keys() & vars(module).keys():
        setattr(module, name, FASTER[name])

_module, _, _attribute = os.environ.get("HURRIED_APP", "hard_jobs:scheduler").partition(":")
scheduler = getattr(importlib.import_module(_module), _attribute)
