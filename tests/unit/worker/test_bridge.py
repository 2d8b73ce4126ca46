"""Plain and async handlers, with and without middleware."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

import pytest

from shared.errors import ConfigurationError
from worker import rate_limit_middleware, retry_middleware, timeout_middleware
from worker.bridge import run_to_end
from worker.middleware import reserve
from worker.site import RunOverError


class Subject:
    name = "subject"


def plain() -> str:
    return "plain"


async def awaited() -> str:
    await asyncio.sleep(0)
    return "awaited"


def returns_a_coroutine() -> Any:
    return awaited()


def labelled(label: str, order: list[str]) -> Callable[..., Any]:
    async def factory(handler: Any, job: object) -> Any:
        async def wrapped() -> Any:
            order.append(label)
            return await handler()

        return wrapped

    return factory


@pytest.mark.parametrize("middleware", [[], [labelled("m", [])]])
@pytest.mark.parametrize(
    ("handler", "result"), [(plain, "plain"), (awaited, "awaited"), (returns_a_coroutine, "awaited")]
)
def test_every_kind_of_handler_runs_to_its_end(handler: Any, result: str, middleware: list[Any]) -> None:
    assert run_to_end(handler, Subject(), middleware) == result


def test_the_first_middleware_is_outermost() -> None:
    order: list[str] = []
    run_to_end(plain, Subject(), [labelled("first", order), labelled("second", order)])
    assert order == ["first", "second"]


def test_a_lambda_around_a_factory_is_middleware_too() -> None:
    assert run_to_end(awaited, Subject(), [lambda h, j: timeout_middleware(h, j, seconds=5)]) == "awaited"


def test_the_time_limit_cancels_what_awaits() -> None:
    async def endless() -> None:
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError):
        run_to_end(endless, Subject(), [functools.partial(timeout_middleware, seconds=0.01)])


@pytest.mark.parametrize(("failures", "tries"), [(0, 1), (2, 3)])
def test_quick_retries_end_with_the_first_success(failures: int, tries: int) -> None:
    calls: list[int] = []

    async def handler() -> str:
        calls.append(1)
        if len(calls) <= failures:
            raise ConnectionError("again")
        return "done"

    retrying = functools.partial(retry_middleware, max_attempts=3, base_delay=0.001)
    assert run_to_end(handler, Subject(), [retrying]) == "done"
    assert len(calls) == tries


def test_the_last_error_of_quick_retries_is_raised_and_cancellation_never_swallowed() -> None:
    calls: list[int] = []

    async def failing() -> None:
        calls.append(1)
        raise ConnectionError(f"try {len(calls)}")

    async def cancelled() -> None:
        calls.append(1)
        raise asyncio.CancelledError

    retrying = functools.partial(retry_middleware, max_attempts=2, base_delay=0.001)
    with pytest.raises(ConnectionError, match="try 2"):
        run_to_end(failing, Subject(), [retrying])
    calls.clear()
    with pytest.raises(asyncio.CancelledError):
        run_to_end(cancelled, Subject(), [retrying])
    assert len(calls) == 1


def test_the_end_of_a_runs_time_is_not_tried_again() -> None:
    calls: list[int] = []

    def spent() -> None:
        calls.append(1)
        raise RunOverError

    with pytest.raises(RunOverError):
        run_to_end(spent, Subject(), [functools.partial(retry_middleware, max_attempts=3, base_delay=0.001)])
    assert len(calls) == 1


def test_a_bucket_starts_full_and_refills_evenly() -> None:
    full_at, waits = 0.0, []
    for now in [100.0] * 4 + [101.0, 110.0, 110.0]:
        full_at, wait = reserve(full_at, now, per_second=2, most=2)
        waits.append(wait)
    assert waits == [0, 0, 0.5, 1.0, 0.5, 0, 0]


def test_outside_of_a_worker_a_rate_limit_has_a_bucket_of_its_own() -> None:
    assert run_to_end(awaited, Subject(), [functools.partial(rate_limit_middleware, key="unit")]) == "awaited"


@pytest.mark.parametrize(
    "middleware",
    [
        functools.partial(timeout_middleware, seconds=0),
        functools.partial(rate_limit_middleware, max_per_second=-1),
        functools.partial(retry_middleware, max_attempts=0),
    ],
)
def test_options_that_make_no_sense_are_told(middleware: Any) -> None:
    with pytest.raises(ConfigurationError):
        run_to_end(plain, Subject(), [middleware])
