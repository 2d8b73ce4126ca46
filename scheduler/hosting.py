"""`setup_scheduler`: a manager that starts and stops with a web app.

Knows three kinds of apps by what they offer, and imports none: those with `on_startup` and `on_shutdown` methods; those
with a lifespan on their router (Starlette, FastAPI); and Flask, whose apps have `extensions` and no lifecycle, so that
the beat starts at once and ends with the process. In several replicas of an app one beat leads.
"""

from __future__ import annotations

import asyncio
import atexit
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from scheduler.manager import SchedulerManager
from shared.errors import ConfigurationError

NAME = "scheduler"


def setup_scheduler(app: Any, manager: SchedulerManager | None = None) -> SchedulerManager:
    """The app's manager: stored in it, started and stopped with it; the same one on a second call.

    Raises ConfigurationError for an app that offers no place to store it or no way to start it.
    """
    held = _held(app)
    if held is not None:
        return held
    manager = manager or SchedulerManager()
    _start_with(app, manager)
    _store(app, manager)
    return manager


def _held(app: Any) -> SchedulerManager | None:
    place = _place(app)
    found = place.get(NAME) if isinstance(place, dict) else getattr(place, NAME, None)
    return found if isinstance(found, SchedulerManager) else None


def _store(app: Any, manager: SchedulerManager) -> None:
    place = _place(app)
    if isinstance(place, dict):
        place[NAME] = manager
    else:
        setattr(place, NAME, manager)


def _place(app: Any) -> Any:
    """Where an app keeps things: its state, or Flask's extensions."""
    for name in ("state", "extensions"):
        place = getattr(app, name, None)
        if place is not None:
            return place
    raise ConfigurationError(f"setup_scheduler: a {type(app).__name__} has neither `state` nor `extensions`")


def _start_with(app: Any, manager: SchedulerManager) -> None:
    router = getattr(app, "router", None)
    if callable(getattr(app, "on_startup", None)) and callable(getattr(app, "on_shutdown", None)):
        app.on_startup(manager.start)
        app.on_shutdown(manager.stop)
    elif router is not None and hasattr(router, "lifespan_context"):
        router.lifespan_context = _around(router.lifespan_context, manager)
    elif hasattr(app, "extensions"):
        asyncio.run(manager.start())
        atexit.register(lambda: asyncio.run(manager.stop()))
    else:
        raise ConfigurationError(f"setup_scheduler: a {type(app).__name__} has no lifespan and no startup hooks")


def _around(lifespan: Callable[[Any], Any], manager: SchedulerManager) -> Callable[[Any], Any]:
    """An app's own lifespan, with the manager started inside it and stopped before it ends."""

    @asynccontextmanager
    async def wrapped(app: Any) -> AsyncIterator[Any]:
        async with lifespan(app) as state:
            await manager.start()
            try:
                yield state
            finally:
                await manager.stop()

    return wrapped
