"""`Job`: what users subclass. A façade: it describes a job and hands it to the outbox; it owns no mechanism.

A subclass is registered under its name when it is defined, so that importing an app is what makes its jobs runnable.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, cast

from shared import registry
from shared.arguments import parameters_of
from shared.context import JobContext
from shared.errors import ConfigurationError, PayloadError
from shared.instants import duration_ms, instant_ms
from shared.options import JobOptions, check_queue, check_timeout, check_ttl
from shared.outbox import Receipt, Request, current_outbox, is_eager
from shared.payload import Call, pack_call
from shared.retry import Retry

Seconds = float | timedelta

if TYPE_CHECKING:  # checkers know defaults, with which a class may also go without parameters; Python 3.11 does not
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R_co = TypeVar("R_co", covariant=True, default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R_co = TypeVar("R_co", covariant=True)


class Handles(Protocol[P, R_co]):
    """A job by its `handle`, from which type checkers know what `dispatch` takes."""

    def handle(self, *args: P.args, **kwargs: P.kwargs) -> R_co: ...


Arguments = tuple[Sequence[Any], Mapping[str, Any]]
"""What one job is sent with: positional arguments and keyword arguments."""


class JobHandle:
    """A job that was sent: `id`, and whether this call made it (`created`; False when a dedupe key held).

    Awaiting a handle gives the handle at once; it never waits for the job.
    """

    __slots__ = ("created", "id")

    def __init__(self, receipt: Receipt) -> None:
        self.id = receipt.job_id
        self.created = receipt.created

    def status(self) -> str | None:
        """queued, started, scheduled, finished, failed …; None when the record is gone. One blocking round trip."""
        return current_outbox().status(self.id)

    def result(self, timeout: Seconds = 0) -> Any:
        """What the job returned. Blocks for up to `timeout`, seconds or a timedelta.

        Raises TimeoutError when it has not ended by then, JobFailedError when it ended without a result.
        """
        return current_outbox().result(self.id, duration_ms(timeout, "timeout") / 1000)

    def __await__(self) -> Generator[Any, None, JobHandle]:
        yield from asyncio.sleep(0).__await__()
        return self

    def __repr__(self) -> str:
        return f"JobHandle({self.id!r}, created={self.created})"


class Job:
    """One kind of work. Subclass it, write `handle`, dispatch it or schedule it.

    `handle` may be a plain or an `async` method. The class attributes say how each run is handled; durations are
    seconds or timedeltas.
    """

    name: ClassVar[str]
    """The registered name; `module.QualName` unless a subclass sets it."""
    queue: ClassVar[str] = "default"
    timeout: ClassVar[Seconds] = 180
    """How long one run may last."""
    expires_in: ClassVar[Seconds | None] = None
    """How long after its nominal time (or its dispatch) a waiting job is stale and never starts."""
    retry: ClassVar[Retry | None] = None
    result_ttl: ClassVar[Seconds] = 500
    """How long a result is kept."""
    failure_ttl: ClassVar[Seconds] = 7 * 86_400
    """How long a failed job is kept, to be looked at and requeued."""
    at_front: ClassVar[bool] = False
    middleware: ClassVar[Sequence[Callable[..., Any]]] = ()

    ctx: JobContext
    """Set by the worker before `handle` runs."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = f"{cls.__module__}.{cls.__qualname__}"
        registry.jobs.register(cls.name, cls)

    def handle(self, *args: Any, **kwargs: Any) -> Any:
        """The work. What it returns is the job's result."""
        raise NotImplementedError(f"{type(self).name} has no handle()")

    def on_expired(self) -> None:
        """Called in the worker when this job was dropped because its deadline had passed."""

    @classmethod
    def dispatch(cls: type[Handles[P]], *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Send this job with `handle`'s arguments, to be run as soon as a worker is free.

        Returns when the job is in Redis: one round trip, at most 2 s. Raises PayloadError for arguments that `handle`
        does not take or that can't travel, StoreError when Redis does not answer.
        """
        return _options(cls).dispatch(*args, **kwargs)

    @classmethod
    async def adispatch(cls: type[Handles[P]], *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """`dispatch` for coroutines: the event loop goes on meanwhile."""
        return await _options(cls).adispatch(*args, **kwargs)

    @classmethod
    def arguments(cls: type[Handles[P]], *args: P.args, **kwargs: P.kwargs) -> Arguments:
        """These arguments as a pair for `dispatch_many`, so that type checkers see them. Nothing is sent."""
        return args, kwargs

    @classmethod
    def dispatch_many(cls, calls: Iterable[Arguments]) -> list[JobHandle]:
        """Send many jobs, as (args, kwargs) pairs or as what `arguments` gives, 1,000 in one round trip and one step.

        Nothing is sent unless all of them can travel. Each 1,000 of them are all sent or none. With more, a StoreError
        on the way leaves some thousands sent and others not; called again, it would send those twice.
        """
        return cls.options().dispatch_many(calls)

    @classmethod
    def options(
        cls: type[Handles[P]],
        *,
        queue: str | None = None,
        delay: Seconds = 0,
        dedupe_key: str | None = None,
        dedupe_ttl: Seconds = 3600,
        deadline: float | datetime | None = None,
        expires_in: Seconds | None = None,
        timeout: Seconds | None = None,
        at_front: bool | None = None,
    ) -> Dispatch[P]:
        """This job with other options for the calls made through what is returned.

        `delay` postpones the start. While a `dedupe_key` holds (`dedupe_ttl` from the first call), further calls send
        nothing and return the first one's handle with `created == False`. `deadline` is an instant, `expires_in` a
        duration from now: past it the job is dropped, not run.
        """
        job = cast("type[Job]", cls)
        base = job_options(job)
        return Dispatch(
            job=job,
            options=JobOptions(
                queue=base.queue if queue is None else check_queue(queue),
                timeout=base.timeout if timeout is None else check_timeout(timeout),
                result_ttl=base.result_ttl,
                failure_ttl=base.failure_ttl,
                at_front=base.at_front if at_front is None else at_front,
            ),
            delay_ms=duration_ms(delay, "delay"),
            expires_in_ms=_optional_ms(job.expires_in if expires_in is None else expires_in),
            deadline=None if deadline is None else instant_ms(deadline, "deadline"),
            dedupe_key=_check_dedupe_key(dedupe_key),
            dedupe_ttl_ms=max(1, duration_ms(dedupe_ttl, "dedupe_ttl")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch(Generic[P]):
    """A job class with the options of one call."""

    job: type[Job]
    options: JobOptions
    delay_ms: int
    expires_in_ms: int | None
    deadline: int | None
    dedupe_key: str | None
    dedupe_ttl_ms: int

    def dispatch(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """Send one job; see `Job.dispatch`."""
        return self.dispatch_many([(args, kwargs)])[0]

    async def adispatch(self, *args: P.args, **kwargs: P.kwargs) -> JobHandle:
        """`dispatch` for coroutines: the event loop goes on meanwhile."""
        return await asyncio.to_thread(self.dispatch, *args, **kwargs)

    def dispatch_many(self, calls: Iterable[Arguments]) -> list[JobHandle]:
        """Send many jobs; see `Job.dispatch_many`."""
        check_importable(self.job)
        packed = [packed_call(self.job, *pair) for pair in _pairs(calls)]
        requests = [self._request(job_id, *one) for job_id, one in zip(_new_ids(len(packed)), packed, strict=True)]
        return [JobHandle(receipt) for receipt in current_outbox().send(requests)] if requests else []

    def _request(self, job_id: str, call: Call, fixed: bytes) -> Request:
        return Request(
            job_id=job_id,
            call=call,
            fixed=fixed,
            options=self.options,
            delay_ms=self.delay_ms,
            expires_in_ms=self.expires_in_ms,
            deadline=self.deadline,
            dedupe_key=self.dedupe_key,
            dedupe_ttl_ms=self.dedupe_ttl_ms,
        )


def _pairs(calls: object) -> Iterator[Arguments]:
    """Raises PayloadError for the first that is no pair of positional arguments and arguments by name."""
    if isinstance(calls, str) or not isinstance(calls, Iterable):
        raise PayloadError(f"expected (args, kwargs) pairs, got {calls!r:.80}", path="calls")
    for number, pair in enumerate(calls):
        match pair:
            case ([*_], Mapping()):
                yield pair
            case _:
                raise PayloadError(f"expected a pair (args, kwargs), got {pair!r:.80}", path=f"calls[{number}]")


def _new_ids(count: int) -> list[str]:
    """So many ids of 128 random bits, read at once: each reading is a call of the system."""
    digits = os.urandom(16 * count).hex()
    return [digits[begin : begin + 32] for begin in range(0, len(digits), 32)]


def _options(job: type[Handles[P]]) -> Dispatch[P]:
    """A job class with its own options."""
    return cast("Dispatch[P]", cast("type[Job]", job).options())


def call_of(job: type[Job], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Call:
    """The call of a job with these arguments, checked against `handle`'s signature and for what can travel."""
    check_importable(job)
    return packed_call(job, args, kwargs)[0]


def packed_call(
    job: type[Job], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> tuple[Call, bytes]:
    """The same of a job that was found importable, with the bytes, which making it has come to anyway."""
    parameters = parameters_of(job)
    parameters.check(args, kwargs or {}, f"{job.name}.handle")
    flat, named = parameters.flatten(args, kwargs or {})
    call = Call(job=job.name, args=flat, kwargs=named, retry=job.retry)
    return call, pack_call(call, parameters.path)


def job_options(job: type[Job]) -> JobOptions:
    """The options that a job class names, checked."""
    return JobOptions(
        queue=check_queue(job.queue),
        timeout=check_timeout(job.timeout),
        result_ttl=check_ttl(job.result_ttl, "result_ttl"),
        failure_ttl=check_ttl(job.failure_ttl, "failure_ttl"),
        at_front=bool(job.at_front),
    )


def job_of_function(function: Callable[..., Any], name: str | None = None) -> type[Job]:
    """A job class whose `handle` calls a function, registered as `module.qualname` unless named."""
    if isinstance(function, type) and issubclass(function, Job):
        return function
    if not callable(function) or isinstance(function, type):
        raise ConfigurationError(f"a job is a Job subclass or a function, got {function!r:.80}")
    if not hasattr(function, "__qualname__"):
        raise ConfigurationError(f"{function!r:.80} has no name to be registered under: write a function with def")
    if next(iter(inspect.signature(function).parameters), "") in {"self", "cls"}:
        raise ConfigurationError(f"{function.__qualname__} is a method: schedule a function or a Job subclass")

    def handle(_self: Job, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    handle.__signature__ = _with_self(inspect.signature(function))  # type: ignore[attr-defined]
    place = {"__module__": function.__module__, "__qualname__": function.__qualname__, "__doc__": function.__doc__}
    return type(
        function.__name__, (Job,), {**place, "handle": handle, "origin": function, **({"name": name} if name else {})}
    )


def check_importable(job: type[Job]) -> None:
    """Raises ConfigurationError for a job that can't run, or that no other process could find (if one has to)."""
    if problem := _problem(job):
        raise ConfigurationError(f"{job.__module__}.{job.__qualname__} {problem}")
    if ("<" in job.__qualname__ or job.__module__ == "__main__") and not is_eager():
        raise ConfigurationError(
            f"{job.__module__}.{job.__qualname__}: a worker can't import it. Define it at the top level of a module"
        )


def _problem(job: type[Job]) -> str | None:
    """Why a worker could not run a job: it makes one without arguments and calls `handle` on it."""
    if job.handle is Job.handle:
        return "has no handle(): write def handle(self, …)"
    if isinstance(inspect.getattr_static(job, "handle"), staticmethod | classmethod):
        return "has a static or class method as handle(): write def handle(self, …)"
    handle = getattr(job, "origin", job.handle)
    if inspect.isgeneratorfunction(handle) or inspect.isasyncgenfunction(handle):
        return "is a generator, whose body would never run: return a value instead of yielding some"
    if job.__init__ is not object.__init__ and not _takes_nothing(job.__init__):
        return "has an __init__() that needs arguments: take them in handle()"
    return None


def _takes_nothing(init: Callable[..., Any]) -> bool:
    try:
        inspect.signature(init).bind(None)
    except TypeError:
        return False
    return True


def _with_self(signature: inspect.Signature) -> inspect.Signature:
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    return signature.replace(parameters=[this, *signature.parameters.values()])


def _check_dedupe_key(key: str | None) -> str | None:
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= 500):
        raise ConfigurationError(f"dedupe_key: text of 1 to 500 characters, got {key!r:.80}")
    if key is not None and not key.isascii() and key != key.encode(errors="replace").decode():
        raise ConfigurationError(f"dedupe_key: text without lone surrogates, got {key!r:.80}")
    return key


def _optional_ms(value: Seconds | None) -> int | None:
    return None if value is None else duration_ms(value, "expires_in")
