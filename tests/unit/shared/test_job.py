"""What dispatching sends, without sending it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import pytest

from shared import Job, Retry, registry
from shared.errors import AlreadyExistsError, ConfigurationError, PayloadError
from shared.job import job_of_function, job_options
from shared.outbox import Receipt, Request, using_outbox


class Greet(Job):
    name = "job-greet"
    queue = "greetings"
    expires_in = 60

    def handle(self, who: str, times: int = 1) -> str:
        return who * times


class Recorder:
    """An outbox that keeps what it is handed."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def send(self, requests: Sequence[Request]) -> list[Receipt]:
        self.requests += requests
        return [Receipt(request.job_id, True) for request in requests]

    def status(self, _job_id: str) -> str | None:
        return "queued"

    def result(self, _job_id: str, _timeout: float) -> Any:
        return None


@pytest.fixture
def sent() -> Iterator[Recorder]:
    recorder = Recorder()
    with using_outbox(recorder):
        yield recorder


def test_a_dispatch_carries_arguments_and_the_classs_options(sent: Recorder) -> None:
    handle = Greet.dispatch("you", times=2)
    (request,) = sent.requests
    assert (handle.id, handle.created, handle.status()) == (request.job_id, True, "queued")
    assert (request.call.args, request.call.kwargs) == (("you",), {"times": 2})
    assert (request.options.queue, request.expires_in_ms) == ("greetings", 60_000)


def test_options_override_for_one_call(sent: Recorder) -> None:
    Greet.options(queue="urgent", delay=1.5, dedupe_key="k", at_front=True, timeout=9).dispatch("you")
    (request,) = sent.requests
    assert (request.options.queue, request.options.at_front, request.options.timeout) == ("urgent", True, 9)
    assert (request.delay_ms, request.dedupe_key) == (1500, "k")


def test_many_go_in_one_call(sent: Recorder) -> None:
    handles = Greet.dispatch_many([((f"n{i}",), {}) for i in range(1000)])
    assert len(handles) == len(sent.requests) == 1000
    assert Greet.dispatch_many([]) == []


def test_a_handle_can_be_awaited_and_never_waits(sent: Recorder) -> None:
    async def both() -> tuple[str, str]:
        first = await Greet.dispatch("you")
        second = await Greet.adispatch("you")
        return first.id, second.id

    assert asyncio.run(both()) == tuple(request.job_id for request in sent.requests)


def test_wrong_arguments_fail_where_they_are_written(sent: Recorder) -> None:
    for args, kwargs in (((), {}), (("a", 1, 2), {}), (("a",), {"tmes": 2})):
        with pytest.raises(PayloadError, match=r"job-greet\.handle"):
            Greet.dispatch(*args, **kwargs)
    assert sent.requests == []


def test_what_cannot_travel_is_refused_with_its_path(sent: Recorder) -> None:
    with pytest.raises(PayloadError, match=r"args\.who: "):
        Greet.dispatch(object())


@pytest.mark.parametrize(
    "option", [{"queue": "a:b"}, {"timeout": 0}, {"delay": -1}, {"dedupe_key": ""}, {"dedupe_key": "\ud800"}]
)
def test_unknown_queue_option_and_the_like_are_one_error(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        Greet.options(**option)


@pytest.mark.parametrize("on", ["ValueError", ValueError, (3,), (int,), None])
def test_a_retry_rule_that_would_cover_nothing_is_refused(on: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Retry\.on: "):
        Retry(1, on=on)


@pytest.mark.parametrize("calls", [[1], [("a",)], [(1, {})], [("a", {})], [((), {}, 3)], [((), None)], "ab", None, 3])
def test_what_are_no_pairs_is_told_and_not_sent(sent: Recorder, calls: Any) -> None:
    with pytest.raises(PayloadError, match=r"^calls.*\(args, kwargs\)"):
        Greet.dispatch_many(calls)
    assert sent.requests == []


@pytest.mark.parametrize("thing", [partial(print, 1), type("Called", (), {"__call__": print})()])
def test_a_thing_without_a_name_is_no_job(thing: Any) -> None:
    with pytest.raises(ConfigurationError, match="has no name"):
        job_of_function(thing)


@pytest.mark.parametrize("timeout", [None, -1, float("nan"), "1"])
def test_a_wait_that_is_no_duration_is_refused(sent: Recorder, timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout must be"):
        Greet.dispatch("x").result(timeout)


def test_two_classes_may_not_share_a_name() -> None:
    with pytest.raises(AlreadyExistsError, match="job-greet"):

        class Other(Job):
            name = "job-greet"

    assert registry.jobs.find("job-greet") is Greet


class Generating(Job):
    def handle(self) -> Iterator[int]:
        yield 1


class AsyncGenerating(Job):
    async def handle(self) -> Any:
        yield 1


class Needy(Job):
    def __init__(self, x: int) -> None: ...

    def handle(self) -> None: ...


class Static(Job):
    @staticmethod
    def handle() -> None: ...


class OfClass(Job):
    @classmethod
    def handle(cls) -> None: ...


def generating() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("job", "told"),
    [
        (Generating, "generator"),
        (AsyncGenerating, "generator"),
        (job_of_function(generating), "generator"),
        (Needy, "needs arguments"),
        (Static, "static or class method"),
        (OfClass, "static or class method"),
    ],
)
def test_a_job_that_could_not_run_is_refused_where_it_is_sent(sent: Recorder, job: type[Job], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        job.dispatch()
    assert sent.requests == []


class Optional(Job):
    def __init__(self, x: int = 1) -> None: ...

    def handle(self) -> None: ...


def test_an_init_that_needs_nothing_is_fine(sent: Recorder) -> None:
    assert Optional.dispatch().created


class Fleeting(Job):
    result_ttl = 9

    def handle(self) -> None: ...


def test_a_result_that_a_lost_reply_would_outlive_is_refused(sent: Recorder) -> None:
    with pytest.raises(ConfigurationError, match=r"result_ttl: at least 10 s.*reply was lost.*run a job twice"):
        Fleeting.dispatch()
    assert job_options(Greet).result_ttl == 500
