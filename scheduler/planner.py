"""The planner: what is to be decided for a schedule, as a function of the schedule, its cursor and now.

It reads no clock, does no I/O and draws no random number; the commit alone acts on what it returns. The next-run table:

    event                               decided by               outcome
    due, nothing outstanding            planner                  enqueue; cursor = nominal
    several due after an outage         planner, misfire policy  all / latest / earliest / none; the rest in the ledger
    older than the window               planner                  missed(window)
    within the window, over the limit   planner                  missed(limit); the newest are kept
    past its own deadline when decided  planner                  missed(deadline)
    earlier job outstanding             commit, overlap policy   skipped(overlap), or allowed
    commit failed or timed out          beat                     the same plan again; the cursor has not moved
    lease lost                          leader                   no commit; become standby
    trigger exhausted                   planner                  completed
    run raised                          worker, retry policy     never the beat
    past deadline at start              worker                   expired, counted, never retried

A plan covers every nominal time between the cursor and the last one that is due, each exactly once. Its size is bounded
by the catch-up limit, whatever the outage: the latest fires are found by searching back from now, and what lies before
them becomes ranges, counted and never walked.

Which fires are misfires: those later than the grace. With "latest", misfires go into the first fire that is still in
its grace, or into the last misfire when there is none: after an outage a schedule runs for one of its missed times.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from scheduler.schedule import Schedule
from scheduler.triggers import jitter_ms
from shared.ids import Kind, fire_job_id
from shared.payload import FireContext

Outcome = Literal["enqueued", "coalesced", "skipped", "missed", "deduplicated"]
Reason = Literal["", "misfire", "overlap", "paused", "window", "limit", "deadline", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fire:
    """A nominal time to be enqueued, unless the commit finds a reason against it. All instants in ms."""

    nominal: int
    due: int
    kind: Kind
    job_id: str
    context: FireContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    """A run of nominal times decided against alike, `nominal` to `until`, `count` of them.

    `job_id` is the job that coalesced times went into.
    """

    nominal: int
    until: int
    count: int
    due: int
    kind: Kind
    outcome: Outcome
    reason: Reason
    job_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to decide for one schedule: the cursor goes from `base` to `cursor`, `decisions` cover what lies between.

    `next` is the nominal time after that, `due` when to act on it; None for both when the trigger is exhausted.
    """

    schedule_id: str
    base: int
    cursor: int
    next: int | None
    due: int | None
    decisions: tuple[Fire | Against, ...] = ()


def plan(schedule: Schedule, cursor: int, now: int) -> Plan:
    """The plan for a schedule that is decided up to `cursor`, at `now`, both in ms."""
    last = _last_due(schedule, now)
    if last is None or last <= cursor:
        return _wait(schedule, cursor)
    before, *recent = _recent(schedule, cursor, last, now)
    following = schedule.trigger.next_ms(last)
    older = () if before is None or before <= cursor else _older(schedule, cursor, before + 1, now)
    return Plan(
        schedule_id=schedule.id,
        base=cursor,
        cursor=last,
        next=following,
        due=None if following is None else due_time(schedule, following),
        decisions=(*older, *_by_misfire_policy(schedule, [before, *recent, following], now)),
    )


def due_time(schedule: Schedule, nominal: int) -> int:
    """When the beat acts on a nominal time: jitter later, and never past the next nominal time."""
    if not schedule.policy.jitter:
        return nominal
    due = nominal + jitter_ms(schedule.id, nominal, schedule.policy.jitter)
    following = schedule.trigger.next_ms(nominal)
    return due if following is None else min(due, following)


def first_cursor(schedule: Schedule, now: int) -> int:
    """Where a new schedule starts: now; for a single date just before it, so that a past date is a misfire."""
    only = schedule.trigger.next_ms(-(2**53))
    is_single = only is not None and schedule.trigger.next_ms(only) is None
    return only - 1 if is_single and only is not None else now


def missed_while_paused(schedule: Schedule, cursor: int, now: int) -> tuple[int, Against | None]:
    """Where a paused schedule goes on from when it is resumed at `now`, and the range that it passes over.

    With `on_resume="catch_up"` the cursor stays and nothing is passed over: the next plan treats it as an outage.
    """
    moved = max(cursor, now) if schedule.policy.on_resume == "discard" else cursor
    passed = _range(schedule, cursor, moved, "paused")
    return moved, None if passed is None else replace(passed, outcome="skipped", kind="scheduled")


def left_by_change(schedule: Schedule, cursor: int, now: int) -> Against | None:
    """The due times that a schedule had not decided when its trigger was changed, as one missed range."""
    found = _range(schedule, cursor, now, "misfire")
    return found if found is not None and found.until <= now else None


def single_fire(schedule: Schedule, nominal: int, now: int, kind: Kind, request: str) -> Fire:
    """A fire asked for by hand, beside the cursor: its deadline runs from now."""
    expires_in = schedule.policy.expires_in
    context = FireContext(
        kind=kind,
        enqueued=now,
        schedule=schedule.id,
        nominal=nominal,
        previous=schedule.trigger.prev_ms(nominal),
        next=schedule.trigger.next_ms(nominal),
        deadline=None if expires_in is None else now + expires_in,
    )
    job_id = fire_job_id(schedule.id, nominal, kind, request)
    return Fire(nominal=nominal, due=now, kind=kind, job_id=job_id, context=context)


def _wait(schedule: Schedule, cursor: int) -> Plan:
    """Nothing is due: the plan moves the index alone."""
    following = schedule.trigger.next_ms(cursor)
    due = None if following is None else due_time(schedule, following)
    return Plan(schedule_id=schedule.id, base=cursor, cursor=cursor, next=following, due=due)


def _last_due(schedule: Schedule, now: int) -> int | None:
    last = schedule.trigger.prev_ms(now + 1)
    if last is not None and due_time(schedule, last) > now:
        return schedule.trigger.prev_ms(last)
    return last


def _recent(schedule: Schedule, cursor: int, last: int, now: int) -> list[int | None]:
    """The newest due fires that may still run, oldest first, at most the catch-up limit of them; before them the one
    that is none of them, if there is any."""
    found: list[int | None] = []
    at: int | None = last
    while at is not None and at > cursor and len(found) < schedule.policy.catchup_limit and _may_run(schedule, at, now):
        found.append(at)
        at = schedule.trigger.prev_ms(at)
    return [at, *reversed(found)]


def _may_run(schedule: Schedule, nominal: int, now: int) -> bool:
    return not _is_past_window(schedule, nominal, now) and not _is_past_deadline(schedule, nominal, now)


def _is_past_window(schedule: Schedule, nominal: int, now: int) -> bool:
    return now - due_time(schedule, nominal) > schedule.policy.catchup_window


def _is_past_deadline(schedule: Schedule, nominal: int, now: int) -> bool:
    expires_in = schedule.policy.expires_in
    return expires_in is not None and nominal + expires_in < now


def _older(schedule: Schedule, cursor: int, until: int, now: int) -> Iterator[Against]:
    """The due fires before `until`, as up to three ranges: past the window, past the deadline, over the limit."""
    past_window = _latest_past_window(schedule, until, now)
    past_deadline = _latest_past_deadline(schedule, until, now)
    at = cursor
    for edge, reason in ((past_window, "window"), (past_deadline, "deadline"), (until - 1, "limit")):
        if edge is not None and (found := _range(schedule, at, edge, reason)):  # type: ignore[arg-type]
            yield found
            at = found.until


def _latest_past_window(schedule: Schedule, until: int, now: int) -> int | None:
    """The latest nominal time before `until` that is past the window.

    Times before now - window in nominal terms are past it but for the latest, whose jitter may keep it inside.
    """
    edge = schedule.trigger.prev_ms(min(until, now - schedule.policy.catchup_window))
    if edge is not None and not _is_past_window(schedule, edge, now):
        return schedule.trigger.prev_ms(edge)
    return edge


def _latest_past_deadline(schedule: Schedule, until: int, now: int) -> int | None:
    expires_in = schedule.policy.expires_in
    return None if expires_in is None else schedule.trigger.prev_ms(min(until, now - expires_in))


def _range(schedule: Schedule, after: int, until: int, reason: Reason) -> Against | None:
    """The nominal times in (after, until] as one missed range, or None when there are none."""
    first, last = schedule.trigger.next_ms(after), schedule.trigger.prev_ms(until + 1)
    if first is None or last is None or first > until:
        return None
    return Against(
        nominal=first,
        until=last,
        count=schedule.trigger.count_ms(after, last),
        due=due_time(schedule, first),
        kind="catchup",
        outcome="missed",
        reason=reason,
    )


def _by_misfire_policy(schedule: Schedule, times: list[int | None], now: int) -> tuple[Fire | Against, ...]:
    """What to do about the fires that may run: all of `times`, in nominal order, but for the first and the last."""
    fires = [_fire(schedule, *beside, now) for beside in zip(times, times[1:], times[2:], strict=False)]  # type: ignore[arg-type]
    split = next((i for i, fire in enumerate(fires) if fire.kind == "scheduled"), len(fires))
    late, on_time = fires[:split], fires[split:]
    return (*_settle_late(schedule, late, on_time), *on_time)


def _settle_late(schedule: Schedule, late: list[Fire], on_time: list[Fire]) -> tuple[Fire | Against, ...]:
    policy = schedule.policy.misfire
    if not late or policy == "all":
        return tuple(late)
    if policy == "skip":
        return (_fold(late, "missed", None),)
    if policy == "earliest":
        return (late[0], *_folded(late[1:], late[0].job_id))
    if on_time:
        return _folded(late, on_time[0].job_id)
    return (*_folded(late[:-1], late[-1].job_id), late[-1])


def _folded(fires: list[Fire], into: str) -> tuple[Against, ...]:
    return (_fold(fires, "coalesced", into),) if fires else ()


def _fold(fires: list[Fire], outcome: Outcome, into: str | None) -> Against:
    return Against(
        nominal=fires[0].nominal,
        until=fires[-1].nominal,
        count=len(fires),
        due=fires[0].due,
        kind="catchup",
        outcome=outcome,
        reason="misfire",
        job_id=into,
    )


def _fire(schedule: Schedule, previous: int | None, nominal: int, following: int | None, now: int) -> Fire:
    due = due_time(schedule, nominal)
    kind: Kind = "scheduled" if now - due <= schedule.policy.misfire_grace else "catchup"
    expires_in = schedule.policy.expires_in
    context = FireContext(
        kind=kind,
        enqueued=now,
        schedule=schedule.id,
        nominal=nominal,
        previous=previous,
        next=following,
        deadline=None if expires_in is None else nominal + expires_in,
    )
    return Fire(nominal=nominal, due=due, kind=kind, job_id=fire_job_id(schedule.id, nominal), context=context)
