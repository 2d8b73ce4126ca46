"""Middleware for the common needs: a time limit, a shared rate limit, quick retries inside the run.

Each is an async factory, `(handler, job, **options) -> handler`. Set options with a lambda or functools.partial:

    middleware = [partial(retry_middleware, max_attempts=3), partial(timeout_middleware, seconds=30.0)]

The first is outermost: here the retries, each try with its own time limit.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from shared.clock import SystemClock
from shared.errors import ConfigurationError
from worker.site import RunOverError, current_site

log = logging.getLogger("rqbeat.worker")

Handler = Callable[[], Awaitable[Any]]


async def timeout_middleware(handler: Handler, job: Any, *, seconds: float = 30.0) -> Handler:  # noqa: ARG001 - the shape of every middleware
    """Cancel the handler after so many seconds, on the monotonic clock; raises TimeoutError.

    It interrupts where an `async` handler awaits. A plain handler, or one that computes without awaiting, is the
    business of the job's own `timeout`, which ends any run.
    """
    _check_positive("timeout_middleware", seconds=seconds)

    async def limited() -> Any:
        async with asyncio.timeout(seconds):
            return await handler()

    return limited


async def rate_limit_middleware(
    handler: Handler, job: Any, *, max_per_second: float = 10, key: str | None = None
) -> Handler:
    """Wait for a token before the handler starts.

    One bucket in Redis for all workers, of the job's name or of a chosen `key`; it starts full, holds one second's
    tokens (at least one) and refills evenly. Waiting counts towards the job's `timeout`. Outside of a worker, in eager
    tests, the bucket is this process' own.
    """
    _check_positive("rate_limit_middleware", max_per_second=max_per_second)
    bucket = key or str(getattr(job, "name", "job"))

    async def limited() -> Any:
        wait = await _take_token(bucket, max_per_second)
        if wait > 0:
            await asyncio.sleep(wait)
        return await handler()

    return limited


async def retry_middleware(handler: Handler, job: Any, *, max_attempts: int = 3, base_delay: float = 1.0) -> Handler:
    """Try again inside the run, after `base_delay`, twice that, and so on; the last error is raised.

    For hiccups of a second or two: the run goes on meanwhile and a kill forgets the tries. `Job.retry` is the durable
    kind. Cancellation is never swallowed, nor is the end of the run by its job's `timeout`.
    """
    _check_positive("retry_middleware", max_attempts=max_attempts)

    async def retried() -> Any:
        for attempt in range(1, max_attempts):
            try:
                return await handler()
            except RunOverError:
                raise
            except Exception as error:  # noqa: BLE001 - any error is tried again; cancellation is no Exception
                delay = base_delay * 2 ** (attempt - 1)
                log.warning(
                    "job %s: try %d of %d failed, again in %.1f s: %s",
                    *(getattr(job, "name", job), attempt, max_attempts, delay, type(error).__name__),
                )
            await asyncio.sleep(delay)
        return await handler()

    return retried


async def _take_token(bucket: str, per_second: float) -> float:
    """The seconds to wait for it."""
    site, most = current_site(), max(1.0, per_second)
    if site is not None:
        return await asyncio.to_thread(site.runs.rate_wait, bucket, per_second, most)
    now = SystemClock().monotonic()
    _own_buckets[bucket], wait = reserve(_own_buckets.get(bucket, 0.0), now, per_second, most)
    return wait


_own_buckets: dict[str, float] = {}


def reserve(full_at: float, now: float, per_second: float, most: float) -> tuple[float, float]:
    """Take a token from a bucket that would be full at `full_at`: when it is full now, and the wait for the token."""
    full_at = max(now, full_at) + 1 / per_second
    return full_at, max(0.0, full_at - most / per_second - now)


def _check_positive(what: str, **options: float) -> None:
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ConfigurationError(f"{what}: {name} must be a number above 0, got {value!r}")
