"""Firing by hand: one job now, or one for each nominal time of a range. Works with or without a running beat.

Such jobs stand beside the schedule's own fires: they have ids and ledger entries of their own, with the id of the
request in both, and never move a cursor. The request's id makes a call that is sent twice enqueue once.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from scheduler.planner import Fire, single_fire
from scheduler.readers import Reader, no_such
from scheduler.schedule import Schedule
from scheduler.store import LEDGER_BOUND, LEDGER_BOUND_EACH
from shared.clock import Clock
from shared.errors import ConfigurationError, StoreRefusedError
from shared.ids import fire_job_id
from shared.instants import iso
from shared.keys import Keys
from shared.payload import DATA_TAIL, data_head, pack_context, sealed_bin
from shared.redisio.connection import Client, server_now, text
from shared.redisio.records import stamp
from shared.redisio.scripts import Script, pack
from shared.signature import UNSIGNED, Keyring

BATCH = 500
CONTROL_BOUND = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Fired:
    """A fire by hand: the job's id and its nominal time, ms."""

    job_id: str
    nominal: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What to backfill: nominal times from `start` to before `end` (ms), at most `most`, the earliest first.

    Times that the schedule has not decided yet are never among them: it will decide them itself. `again` takes also
    those that were enqueued already. `overlap="skip"` keeps to the schedule's number of instances.
    """

    start: int
    end: int
    most: int = 1000
    again: bool = False
    overlap: Literal["allow", "skip"] = "allow"


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfilled:
    """What a backfill came to; `skipped` were enqueued by somebody else meanwhile, or overlapped."""

    planned: int
    enqueued: int
    skipped: int
    jobs: tuple[str, ...]


class HandFire:
    """Fires of one namespace by hand, in the name of `actor`. Blocking; raises StoreError and NotFoundError."""

    def __init__(self, client: Client, keys: Keys, clock: Clock, actor: str, keyring: Keyring = UNSIGNED) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._actor = actor
        self._keyring = keyring
        self._reader = Reader(client, keys)
        self._fire = Script(client, "fire")

    def now(self, schedule_id: str, reason: str = "", request: str | None = None) -> Fired:
        """Enqueue one job of a schedule now."""
        schedule, now = self._reader.definition(schedule_id), server_now(self._client)
        fire = single_fire(schedule, now, now, "manual", request or _new_request())
        self._fire_all(schedule, [fire], reason, again=True, instances=0)
        return Fired(job_id=fire.job_id, nominal=fire.nominal)

    def plan(self, schedule_id: str, span: Range) -> list[int]:
        """The nominal times that a backfill would enqueue. Raises ConfigurationError for a range that holds none."""
        if span.end <= span.start:
            raise ConfigurationError("a backfill goes from an earlier to a later instant")
        view = self._reader.schedule(schedule_id)
        decided = replace(span, end=min(span.end, view.cursor + 1))
        if span.start > view.cursor:
            raise ConfigurationError(
                f"{schedule_id!r} is decided up to {iso(view.cursor)}; later times are its own to fire"
            )
        schedule = self._reader.definition(schedule_id)
        return _nominal_times(schedule, decided, () if span.again else self._enqueued_times(schedule_id))

    def backfill(
        self,
        schedule_id: str,
        span: Range,
        reason: str = "",
        request: str | None = None,
        progress: Callable[[int, int], None] = lambda _done, _planned: None,
    ) -> Backfilled:
        """Enqueue a job for each nominal time of a range that was not enqueued yet.

        `progress` is called with how many are done, of how many, after each batch.
        """
        schedule, times = self._reader.definition(schedule_id), self.plan(schedule_id, span)
        request, now = request or _new_request(), server_now(self._client)
        fires = [single_fire(schedule, at, now, "backfill", request) for at in times]
        instances = schedule.policy.instances if span.overlap == "skip" else 0
        jobs: list[str] = []
        for begin in range(0, len(fires), BATCH):
            batch = fires[begin : begin + BATCH]
            outcomes = self._fire_all(schedule, batch, reason, again=span.again, instances=instances)
            jobs += [fire.job_id for fire, outcome in zip(batch, outcomes, strict=True) if outcome == "enqueued"]
            progress(begin + len(batch), len(fires))
        return Backfilled(planned=len(times), enqueued=len(jobs), skipped=len(times) - len(jobs), jobs=tuple(jobs))

    def _fire_all(
        self, schedule: Schedule, fires: Sequence[Fire], reason: str, *, again: bool, instances: int
    ) -> list[str]:
        """Enqueue fires in one step; an outcome for each."""
        keys = self._keys
        arguments = {
            "id": schedule.id,
            "kind": fires[0].kind,
            "stamp": stamp(self._clock.now_ms()),
            "head": data_head(schedule.packed_call),
            "tail": DATA_TAIL,
            "queue": keys.rq_queue_prefix,
            "live": keys.live_prefix,
            "job": keys.rq_job_prefix,
            "fired": keys.fired_prefix,
            "bounds": [LEDGER_BOUND, LEDGER_BOUND_EACH],
            "actor": self._actor,
            "reason": reason,
            "bound": CONTROL_BOUND,
            "again": again,
            "instances": instances,
        }
        rows = [_row(schedule, fire, self._keyring) for fire in fires]
        code, reply = self._fire(self._fire_keys(schedule.id), [pack(arguments), pack(rows)])
        if code == b"error":
            raise StoreRefusedError(f"schedule {schedule.id!r} was not fired: {text(reply)}")
        if code == b"gone":
            raise no_such(schedule.id)
        return [text(outcome) for outcome in reply]

    def _fire_keys(self, schedule_id: str) -> list[str]:
        keys = self._keys
        ledgers = [keys.ledger, keys.ledger_prefix + schedule_id]
        own = [keys.outstanding_prefix + schedule_id, keys.control]
        return [keys.schedule_prefix + schedule_id, keys.rq_queues, *ledgers, *own]

    def _enqueued_times(self, schedule_id: str) -> Collection[int]:
        """The nominal times that the schedule's own ledger has as enqueued, by its cursor or by an earlier backfill."""
        entries = self._reader.history(schedule_id, "enqueued", most=LEDGER_BOUND_EACH)
        return {entry.nominal for entry in entries if entry.kind != "manual"}


def _row(schedule: Schedule, fire: Fire, keyring: Keyring) -> list[object]:
    context = sealed_bin(pack_context(fire.context), keyring, schedule.packed_call, fire.job_id)
    return [fire.nominal, fire.job_id, context, fire_job_id(schedule.id, fire.nominal)]


def _nominal_times(schedule: Schedule, span: Range, done: Collection[int]) -> list[int]:
    times: list[int] = []
    at = schedule.trigger.next_ms(span.start - 1)
    while at is not None and at < span.end and len(times) < span.most:
        if at not in done:
            times.append(at)
        at = schedule.trigger.next_ms(at)
    return times


def _new_request() -> str:
    return uuid.uuid4().hex[:12]
