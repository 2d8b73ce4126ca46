"""The timetable, the commit and the lease in Redis: typed functions in front of the scripts.

Redis holds the truth. What this module caches (loaded definitions) is keyed by revision, and the commit refuses a plan
that was made from an older one: a stale cache costs a round trip, never a wrong fire.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from scheduler.planner import Against, Fire, Plan
from scheduler.ports import (
    LATE_MS,
    Code,
    Committed,
    Decision,
    DueBatch,
    DueRow,
    Lease,
    LeaseState,
    Planned,
    PlanResult,
    Released,
    Renewal,
)
from scheduler.schedule import Schedule, pack_definition, unpack_definition
from shared.clock import Clock
from shared.errors import RqbeatError, StoreUnavailableError
from shared.keys import Keys
from shared.payload import DATA_TAIL, data_head, pack_context, sealed_bin
from shared.redisio.connection import Client, store_errors, text
from shared.redisio.records import job_fields, stamp
from shared.redisio.scripts import Call, Script, pack, unpack
from shared.signature import UNSIGNED, Keyring

log = logging.getLogger("rqbeat.beat")

LEDGER_BOUND = 1_000_000
LEDGER_BOUND_EACH = 1000
RELEASED_AT_ONCE = 500
PRUNED_AT_ONCE = 1000
RECONCILED_AT_ONCE = 200
PATIENCE_MS = 20_000
STOPPED_AT_ONCE = 500


class RedisTimetable:
    """The store of one namespace."""

    def __init__(self, client: Client, keys: Keys, clock: Clock, keyring: Keyring = UNSIGNED) -> None:
        self._keys = keys
        self._clock = clock
        self._keyring = keyring
        self._due = Script(client, "due")
        self._coming = Script(client, "coming")
        self._load = Script(client, "load")
        self._commit = Script(client, "commit")
        self._aside = Script(client, "aside")
        self._release = Script(client, "release")

    def due(self, now: int, most: int, most_late: int) -> DueBatch:
        keys = self._keys
        arguments: list[str | int] = [now, most, keys.schedule_prefix, LATE_MS, most_late]
        redis_now, head, waiting, rows = self._due([keys.timetable, keys.waiters], arguments)
        found = [_due_row(row) for row in unpack(rows)]
        return DueBatch(now=min(now, redis_now), head=_ms(head), waiting=waiting, rows=found)

    def coming(self, until: int, skip: int, most: int) -> Sequence[DueRow]:
        keys = self._keys
        rows = self._coming([keys.timetable], [until, skip, most, keys.schedule_prefix])
        return [_due_row(row) for row in unpack(rows)]

    def load(self, ids: Sequence[str]) -> Mapping[str, tuple[int, Schedule] | Exception]:
        rows = unpack(self._load([], [self._keys.schedule_prefix, *ids]))
        loaded = {schedule_id: _loaded(row) for schedule_id, row in zip(ids, rows, strict=True)}
        return {schedule_id: found for schedule_id, found in loaded.items() if found is not None}

    def commits(
        self, lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        sent: deque[Sequence[Planned]] = deque()
        for reply in self._commit.each(self._calls(lease, batches, sent)):
            yield sent.popleft(), _committed(reply)

    def commit(self, lease: Lease, plans: Sequence[Planned]) -> Committed | None:
        """One batch alone."""
        ((_, committed),) = self.commits(lease, [plans])
        return committed

    def _calls(
        self, lease: Lease, batches: Iterable[Sequence[Planned]], sent: deque[Sequence[Planned]]
    ) -> Iterator[Call]:
        keys = [*self._firing_keys(), self._keys.completed]
        for plans in batches:
            sent.append(plans)
            now = self._clock.now_ms()
            yield keys, [self._header(lease), pack([_plan_row(planned, now, self._keyring) for planned in plans])]

    def release_waiting(self, lease: Lease) -> Sequence[Released]:
        reply = self._release(self._firing_keys(), [self._header(lease), RELEASED_AT_ONCE])
        return [_released(row) for row in reply[1]] if reply[0] == b"ok" else []

    def set_aside(self, lease: Lease, schedule_id: str, until: int, error: str) -> None:
        keys = self._keys
        self._aside(
            [keys.timetable, keys.leader, keys.schedule_prefix + schedule_id],
            [lease.owner, lease.term, schedule_id, until, error],
        )

    def _firing_keys(self) -> list[str]:
        keys = self._keys
        return [keys.timetable, keys.leader, keys.ledger, keys.rq_queues, keys.waiters, keys.stopping]

    def _header(self, lease: Lease) -> bytes:
        keys = self._keys
        return pack(
            {
                "owner": lease.owner,
                "term": lease.term,
                "stamp": stamp(self._clock.now_ms()),
                "tail": DATA_TAIL,
                "schedule": keys.schedule_prefix,
                "fired": keys.fired_prefix,
                "own_ledger": keys.ledger_prefix,
                "outstanding": keys.outstanding_prefix,
                "waiting": keys.waiting_prefix,
                "stats": keys.stats_prefix,
                "scheduled": keys.rq_scheduled_prefix,
                "queue": keys.rq_queue_prefix,
                "live": keys.live_prefix,
                "job": keys.rq_job_prefix,
                "bounds": [LEDGER_BOUND, LEDGER_BOUND_EACH],
                "signed": bool(self._keyring.keys),
            }
        )


class RedisChores:
    """What one owner has to do now and then, beside firing."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._keys = keys
        self._stop = Script(client, "stop_jobs")
        self._prune = Script(client, "prune")
        self._reconcile = Script(client, "reconcile")

    def stop_replaced(self) -> int:
        """Tell workers to stop jobs that were replaced; how many still run."""
        keys = self._keys
        running: int = self._stop(
            [keys.stopping], [keys.rq_job_prefix, keys.rq_channel_prefix, STOPPED_AT_ONCE, keys.rq_scheduled_prefix]
        )
        return running

    def reconcile(self) -> list[str]:
        """Put back jobs that are queued by their record and in no list; their ids. A job is seen so twice before."""
        keys = self._keys
        arguments = {
            "queue": keys.rq_queue_prefix,
            "job": keys.rq_job_prefix,
            "live": keys.live_prefix,
            "most": RECONCILED_AT_ONCE,
            "patience": PATIENCE_MS,
        }
        found = [
            job_id.decode(errors="replace")
            for job_id in self._reconcile([keys.rq_queues, keys.suspects], [pack(arguments)])
        ]
        for job_id in found:
            log.warning("job %s was queued and in no list: put back", job_id)
        return found

    def prune(self) -> bool:
        """Forget completed run-time schedules whose time has come; whether there may be more."""
        keys = self._keys
        prefixes = {
            "schedule": keys.schedule_prefix,
            "stats": keys.stats_prefix,
            "outstanding": keys.outstanding_prefix,
            "own_ledger": keys.ledger_prefix,
            "most": PRUNED_AT_ONCE,
        }
        forgotten: int = self._prune([keys.completed, keys.schedules], [pack(prefixes)])
        return forgotten == PRUNED_AT_ONCE


class RedisLease:
    """The lease of one namespace."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._claim = Script(client, "lease_claim")
        self._renew = Script(client, "lease_renew")
        self._release = Script(client, "lease_release")

    def read(self) -> LeaseState:
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            pipe.hmget(self._keys.leader, "owner", "term", "counter")
            pipe.time()
            row, (seconds, micros) = pipe.execute()
        owner, term, counter = (text(value or b"") for value in row)
        return LeaseState(owner=owner, term=term, counter=counter, now=seconds * 1000 + micros // 1000)

    def claim(self, owner: str, seen: LeaseState) -> Lease | None:
        reply = self._claim([self._keys.leader], [owner, seen.term, seen.counter])
        return Lease(owner=owner, term=text(reply[1])) if reply[0] else None

    def renew(self, lease: Lease) -> Renewal | None:
        keys = self._keys
        reply = self._renew([keys.leader, keys.timetable, keys.waiters], [lease.owner, lease.term])
        return Renewal(now=reply[1], head=_ms(reply[2]), waiting=reply[3]) if reply[0] else None

    def release(self, lease: Lease) -> None:
        self._release([self._keys.leader, self._keys.wake], [lease.owner, lease.term])


def about(schedule_id: str, nominal: int, until: int, count: int, kind: str, job_id: str | None, due: int) -> bytes:
    """The second part of a ledger entry as the scripts take it: seven values, one after the other."""
    return pack([schedule_id, nominal, until, count, kind, job_id or False, due])[1:]


def about_range(schedule_id: str, decision: Against) -> bytes:
    """The same of times that were decided against."""
    span = (decision.nominal, decision.until, decision.count)
    return about(schedule_id, *span, decision.kind, decision.job_id, decision.due)


def definition_fields(schedule: Schedule) -> dict[str, object]:
    """What the schedule's hash holds of its definition: the definition itself, and its parts that the commit reads."""
    return {
        "definition": pack_definition(schedule),
        "owner": schedule.owner,
        "head": data_head(schedule.packed_call),
        "policy": pack(_policy_of(schedule)),
    }


def _policy_of(schedule: Schedule) -> dict[str, object]:
    """What a commit needs to know beside the arguments; the same bytes for schedules that agree in all of it."""
    call, policy = schedule.call, schedule.policy
    return {
        "queue": schedule.options.queue,
        "front": schedule.options.at_front,
        "fields": job_fields(call.job, schedule.options, call.retry),
        "instances": policy.instances,
        "overlap": policy.overlap,
        "limit": policy.limit,
        "depth": policy.queue_depth,
        "on_full": policy.on_full,
        "pause_after": policy.pause_after,
        "window": policy.catchup_window,
        "dedupe_ttl": schedule.dedupe_ttl,
        "owner": schedule.owner,
    }


def _due_row(row: Sequence[bytes]) -> DueRow:
    """One row of `due`: junk in one schedule's record is an error of that schedule."""
    schedule_id, due, revision, status, cursor, error = row
    name = schedule_id.decode(errors="surrogateescape")
    try:
        numbers = {"due": int(float(due)), "revision": int(revision or 0), "cursor": int(cursor or 0)}
        return DueRow(id=name, status=text(status), error=text(error), **numbers)
    except (ValueError, OverflowError) as junk:
        return DueRow(id=name, due=0, revision=0, status="", cursor=0, error=f"its record can't be read: {junk}")


def _loaded(row: Sequence[Any]) -> tuple[int, Schedule] | Exception | None:
    """One row of `load`: what can't be read is an exception in its place, so that the others go on."""
    if not row:
        return None
    revision, definition = row
    if not revision:
        return StoreUnavailableError(text(definition))
    try:
        return int(revision), unpack_definition(definition)
    except (RqbeatError, ValueError, TypeError, KeyError) as error:
        return error


def _plan_row(planned: Planned, now: int, keyring: Keyring) -> list[object]:
    plan: Plan = planned.plan
    return [
        plan.schedule_id,
        planned.revision,
        plan.base,
        plan.cursor,
        False if plan.due is None else plan.due,
        [_decision_row(planned.schedule, decision, now, keyring) for decision in plan.decisions],
    ]


def _decision_row(schedule: Schedule, decision: Decision, now: int, keyring: Keyring) -> list[object]:
    match decision:
        case Fire():
            at, job_id = decision.nominal, decision.job_id
            context = sealed_bin(pack_context(decision.context, now), keyring, schedule.packed_call, job_id)
            entry = about(schedule.id, at, at, 1, decision.kind, job_id, decision.due)
            return ["enqueue", at, decision.due, decision.kind, job_id, context, entry]
        case Against():
            return [
                "against",
                decision.until,
                decision.due,
                decision.outcome,
                decision.reason,
                about_range(schedule.id, decision),
            ]


def _committed(reply: Sequence[Any]) -> Committed | None:
    if reply[0] == b"fenced":
        return None
    _, now, head, results = reply
    return Committed(now=now, head=_ms(head), others={row[0]: _result(row) for row in unpack(results)})


def _result(row: Sequence[Any]) -> PlanResult:
    _, code, detail, settled = row
    return PlanResult(
        code=cast("Code", text(code)),
        detail=text(detail),
        settled={index: (text(outcome), text(reason)) for index, outcome, reason in settled},
    )


def _released(row: Sequence[Any]) -> Released:
    schedule_id, nominal, outcome, reason = row
    return Released(schedule=text(schedule_id), nominal=nominal, outcome=text(outcome), reason=text(reason))


def _ms(value: bytes) -> int | None:
    """A score of the timetable as Redis writes it, or None for none."""
    return int(float(value)) if value else None
