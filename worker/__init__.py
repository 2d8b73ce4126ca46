"""Where and how jobs run: RQ's worker behind guards, one run of a job, middleware, and `rqbeat worker`.

Rule of this package: it imports `shared` and never `scheduler`. Importing it opens no connection, reads no environment
and loads neither rq nor redis; the names below are loaded when they are first used.

    cli → runner               settings, processes; → supervisor: several of them
    guard                      RQ's classes behind guards; → chores: what a worker does beside jobs
    execute                    one run; → context, once, bridge, middleware
    retry, deadline, record, suspects     pure: functions of their arguments
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worker.middleware import rate_limit_middleware, retry_middleware, timeout_middleware

__all__ = ["rate_limit_middleware", "retry_middleware", "timeout_middleware"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("worker.middleware"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
