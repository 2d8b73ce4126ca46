"""A schedule as frozen data: a trigger, a job, and the policies that decide what becomes of its fires.

Everything is checked when a schedule is built, so that nothing stored can fail later for what a person typed. The
definition (`pack`, `unpack`) is what Redis keeps; equal schedules have equal definitions, byte for byte.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Literal, TypedDict, cast, get_args

import msgpack

from scheduler.triggers import DateTrigger, IntervalTrigger, Trigger, from_data, to_data
from shared import registry
from shared.codec import encode
from shared.errors import ConfigurationError
from shared.ids import check_schedule_id
from shared.instants import duration_ms
from shared.job import Job, call_of, job_options
from shared.options import JobOptions, check_queue, check_timeout, check_ttl
from shared.payload import Call, pack_call, unpack_call
from shared.retry import Retry

Misfire = Literal["latest", "all", "earliest", "skip"]
Overlap = Literal["skip", "allow", "buffer", "replace"]
OnFull = Literal["skip", "hold"]
OnResume = Literal["discard", "catch_up"]
Owner = Literal["app", "runtime"]
Seconds = float | timedelta

VERSION = 1
SHARED_PARTS = 4096
MINUTE_MS = 60_000
SHORT_DEDUPE_MS = 10 * MINUTE_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What becomes of a schedule's fires. Durations in ms; 0 is "no bound", and "never" for `pause_after`.

    With `overlap="replace"` a running predecessor is told to stop once the new job is in the queue, again and again
    until it has ended: until then both may run.
    """

    misfire: Misfire = "latest"
    misfire_grace: int = 30_000
    catchup_window: int = 3_600_000
    catchup_limit: int = 100
    overlap: Overlap = "skip"
    instances: int = 1
    on_resume: OnResume = "discard"
    expires_in: int | None = None
    limit: int = 0
    jitter: int = 0
    queue_depth: int = 0
    on_full: OnFull = "skip"
    pause_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """One schedule as registered. The trigger is bound to the id.

    The call stays packed: to plan a fire and to commit it, nobody needs to look into it.
    """

    id: str
    name: str
    trigger: Trigger
    packed_call: bytes
    options: JobOptions
    policy: Policy = field(default_factory=Policy)
    tags: tuple[str, ...] = ()
    note: str = ""
    owner: Owner = "app"

    @property
    def call(self) -> Call:
        """The job and its arguments, unpacked anew each time."""
        return unpack_call(self.packed_call)

    @property
    def dedupe_ttl(self) -> int:
        """How long a dedupe key is kept, ms: the catch-up window and a minute.

        Ten minutes at most for a schedule that may fire more often than once a minute, whose keys would fill Redis.
        """
        ttl = self.policy.catchup_window + MINUTE_MS
        return min(ttl, SHORT_DEDUPE_MS) if self._is_frequent() else ttl

    def _is_frequent(self) -> bool:
        if isinstance(self.trigger, DateTrigger):
            return False
        first = self.trigger.next_ms(0)
        second = None if first is None else self.trigger.next_ms(first)
        return first is not None and second is not None and second - first < MINUTE_MS


class ScheduleOptions(TypedDict, total=False):
    """The keyword options of `schedule()`. Durations are seconds or timedeltas."""

    id: str
    name: str
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    queue: str
    at_front: bool
    timeout: Seconds
    result_ttl: Seconds
    failure_ttl: Seconds
    retry: Retry
    middleware: Sequence[str | Callable[..., Any]]
    expires_in: Seconds
    misfire: Misfire
    misfire_grace: Seconds
    catchup_window: Seconds
    catchup_limit: int
    overlap: Overlap
    coalesce: bool
    max_instances: int
    on_resume: OnResume
    limit: int
    jitter: Seconds
    max_queue_depth: int
    on_full: OnFull
    pause_after_failures: int
    tags: Sequence[str]
    note: str


def build(job: type[Job], trigger: Trigger, options: Mapping[str, Any], owner: Owner = "app") -> Schedule:
    """The schedule that these options describe. Raises a ConfigurationError for the first that is wrong."""
    _refuse_unknown(options)
    if not isinstance(trigger, Trigger):
        raise ConfigurationError(f"trigger: expected a trigger such as CronTrigger('0 9 * * *'), got {trigger!r:.80}")
    call = _call(job, options)
    schedule_id = check_schedule_id(options["id"] if "id" in options else _default_id(job, trigger, call))
    call = replace(call, middleware=_middleware(schedule_id, options))
    return Schedule(
        id=schedule_id,
        name=str(options.get("name") or job.__name__),
        trigger=trigger.bound_to(schedule_id),
        packed_call=pack_call(call),
        options=_job_options(job, options),
        policy=_policy(job, trigger, options),
        tags=_tags(options.get("tags", ())),
        note=str(options.get("note", "")),
        owner=owner,
    )


def pack_definition(schedule: Schedule) -> bytes:
    """The definition, as Redis keeps it."""
    return encode(
        {
            "v": VERSION,
            "id": schedule.id,
            "name": schedule.name,
            "trigger": encode(to_data(schedule.trigger)),
            "call": schedule.packed_call,
            "options": _packed(schedule.options),
            "policy": _packed(schedule.policy),
            "tags": list(schedule.tags),
            "note": schedule.note,
            "owner": schedule.owner,
        },
        schedule.id,
        limit=2 * 256 * 1024,
    )


def definition_digest(schedule: Schedule) -> str:
    """What the definition comes to: SHA-1 in hex, as Redis can tell it of what is stored."""
    return hashlib.sha1(pack_definition(schedule)).hexdigest()  # noqa: S324 - Redis' choice, and no secret


def unpack_definition(definition: bytes) -> Schedule:
    """The schedule of a definition. Raises ConfigurationError when this version can't read it."""
    data = msgpack.unpackb(definition, raw=False)  # plain data, which nobody but us writes: read without further checks
    if not isinstance(data, dict) or data.get("v") != VERSION:
        raise ConfigurationError(f"a definition of version {VERSION} was expected")
    return Schedule(
        id=data["id"],
        name=data["name"],
        trigger=_trigger_of(data["trigger"]),
        packed_call=data["call"],
        options=_options_of(data["options"]),
        policy=_policy_of(data["policy"]),
        tags=tuple(data["tags"]),
        note=data["note"],
        owner=data["owner"],
    )


# Many schedules share these parts, each of which is immutable: those that look alike are packed and unpacked once.


@lru_cache(SHARED_PARTS)
def _packed(part: JobOptions | Policy) -> bytes:
    return encode(asdict(part))


@lru_cache(SHARED_PARTS)
def _trigger_of(packed: bytes) -> Trigger:
    return from_data(msgpack.unpackb(packed, raw=False))


@lru_cache(SHARED_PARTS)
def _options_of(packed: bytes) -> JobOptions:
    return JobOptions(**msgpack.unpackb(packed, raw=False))


@lru_cache(SHARED_PARTS)
def _policy_of(packed: bytes) -> Policy:
    return Policy(**msgpack.unpackb(packed, raw=False))


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = ScheduleOptions.__annotations__
    for name in options:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise ConfigurationError(f"unknown option {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))


def _call(job: type[Job], options: Mapping[str, Any]) -> Call:
    call = call_of(job, options.get("args", ()), options.get("kwargs"))
    retry = options.get("retry", call.retry)
    if retry is not None and not isinstance(retry, Retry):
        raise ConfigurationError(f"retry: expected Retry(max=…), got {retry!r:.80}")
    return replace(call, retry=retry)


def _middleware(schedule_id: str, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The names under which a schedule's middleware is registered, here and in every process that imports the app.

    A function goes by its place; a lambda or a partial, of which one place may hold many, by schedule and position.
    """
    return tuple(_named(schedule_id, index, item) for index, item in enumerate(options.get("middleware", ())))


def _named(schedule_id: str, index: int, item: Any) -> str:
    if isinstance(item, str):
        return item
    if not callable(item):
        raise ConfigurationError(f"middleware: a function or the name of a registered one, got {item!r:.80}")
    place = f"{getattr(item, '__module__', '')}.{getattr(item, '__qualname__', '<')}"
    name = f"{schedule_id}#{index}" if "<" in place else place
    registry.middleware.register(name, item)
    return name


def _default_id(job: type[Job], trigger: Trigger, call: Call) -> str:
    """The job's name; for a single date also the instant and a digest of the arguments, so that dates don't collide."""
    if not isinstance(trigger, DateTrigger):
        return job.name
    digest = hashlib.sha256(pack_call(call)).hexdigest()[:8]
    return f"{job.name}@{trigger.next_ms(-(2**53))}-{digest}"


def _job_options(job: type[Job], options: Mapping[str, Any]) -> JobOptions:
    base = job_options(job)
    return JobOptions(
        queue=check_queue(options.get("queue", base.queue)),
        timeout=check_timeout(options.get("timeout", base.timeout)),
        result_ttl=check_ttl(options.get("result_ttl", base.result_ttl), "result_ttl"),
        failure_ttl=check_ttl(options.get("failure_ttl", base.failure_ttl), "failure_ttl"),
        at_front=bool(options.get("at_front", base.at_front)),
    )


def _policy(job: type[Job], trigger: Trigger, options: Mapping[str, Any]) -> Policy:
    default_jitter = trigger.jitter if isinstance(trigger, IntervalTrigger) else 0
    return Policy(
        misfire=_one_of(options, "misfire", Misfire, "latest"),
        misfire_grace=duration_ms(options.get("misfire_grace", 30), "misfire_grace"),
        catchup_window=duration_ms(options.get("catchup_window", 3600), "catchup_window"),
        catchup_limit=_whole(options, "catchup_limit", 100, 1, 10_000),
        overlap=_overlap(options),
        instances=_whole(options, "max_instances", 0 if options.get("overlap") == "allow" else 1, 0, 100_000),
        on_resume=_one_of(options, "on_resume", OnResume, "discard"),
        expires_in=_expiry(options.get("expires_in", job.expires_in)),
        limit=_whole(options, "limit", 0, 0, 2**53),
        jitter=duration_ms(options.get("jitter", default_jitter), "jitter"),
        queue_depth=_whole(options, "max_queue_depth", 0, 0, 2**53),
        on_full=_one_of(options, "on_full", OnFull, "skip"),
        pause_after=_whole(options, "pause_after_failures", 0, 0, 1_000_000),
    )


def _expiry(value: Seconds | None) -> int | None:
    ms = None if value is None else duration_ms(value, "expires_in")
    if ms == 0:
        raise ConfigurationError("expires_in: more than nothing, for a job can't start at its very nominal time")
    return ms


def _overlap(options: Mapping[str, Any]) -> Overlap:
    """`coalesce=True` is `overlap="skip"`, `coalesce=False` is "allow" with the `max_instances` given, 1 if none."""
    meant = {True: "skip", False: "allow"}.get(options["coalesce"]) if "coalesce" in options else None
    named = _one_of(options, "overlap", Overlap, meant or "skip")
    if meant and named != meant:
        raise ConfigurationError(
            f"coalesce={options['coalesce']} means overlap={meant!r}, but overlap={named!r} is given too"
        )
    return cast("Overlap", named)


def _one_of(options: Mapping[str, Any], name: str, kind: Any, default: str) -> Any:
    value = options.get(name, default)
    if value not in get_args(kind):
        raise ConfigurationError(f"{name}: one of {', '.join(get_args(kind))}, got {value!r:.80}")
    return value


def _whole(options: Mapping[str, Any], name: str, default: int, least: int, most: int) -> int:
    value = options.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ConfigurationError(f"{name}: a whole number from {least} to {most}, got {value!r:.80}")
    return value


def _tags(tags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(tags, str) or not all(isinstance(tag, str) and tag for tag in tags):
        raise ConfigurationError(f"tags: a list of texts, got {tags!r:.80}")
    return tuple(tags)
