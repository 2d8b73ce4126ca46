"""The one bridge between plain and `async` code: handlers and middleware meet here, nowhere else.

A plain handler without middleware is called as it is. All else runs in an event loop of its own, in the main thread:
RQ's time-out is an alarm, which reaches only that one. A plain handler inside the loop blocks it, which harms nobody,
since a run has its process to itself.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

Handler = Callable[[], Any]
Middleware = Callable[..., Any]
"""An async factory: `(handler, job, **options) -> handler`; the handlers are awaited and take no arguments."""


def run_to_end(handler: Handler, job: object, middleware: Sequence[Middleware]) -> Any:
    """What the handler returns, through its middleware; the first is outermost. Blocks until it ended."""
    if middleware or inspect.iscoroutinefunction(handler):
        return asyncio.run(_through(handler, job, middleware))
    result = handler()
    return asyncio.run(_awaited(result)) if inspect.isawaitable(result) else result


async def _through(handler: Handler, job: object, middleware: Sequence[Middleware]) -> Any:
    wrapped = _as_async(handler)
    for factory in reversed(middleware):
        wrapped = await _awaited(factory(wrapped, job))
    return await _awaited(wrapped())


def _as_async(handler: Handler) -> Callable[[], Awaitable[Any]]:
    async def call() -> Any:
        return await _awaited(handler())

    return call


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
