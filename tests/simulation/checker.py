"""The end of a run, by comparing sets: what the triggers say, what the ledger says, what was pushed.

Each span of each trigger answers for its own part of the ledger: every nominal time in it is covered by exactly one
entry, ranges counted out one by one. How the product decides plays no part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from scheduler.memoryfiring import Entry
from scheduler.planner import due_time
from scheduler.ports import LedgerEntry
from scheduler.triggers import Trigger
from tests.simulation.account import OWN, Life, Span

LATE_MS = 20
Numbered = Sequence[tuple[int, LedgerEntry]]


def judge(lives: Sequence[Life], ledger: Sequence[LedgerEntry], pushed: Mapping[str, int]) -> list[str]:
    """Everything that is wrong, in sentences."""
    by_schedule: dict[str, list[tuple[int, LedgerEntry]]] = {}
    for index, entry in enumerate(ledger):
        if entry.kind in OWN:
            by_schedule.setdefault(entry.schedule, []).append((index, entry))
    wrong = [line for life in lives for line in _judge_life(life, by_schedule.get(life.id, ()))]
    return [*wrong, *_judge_pushed(ledger, pushed)]


def nominals(trigger: Trigger, since: int, until: int) -> Iterator[int]:
    """The nominal times of a trigger in (since, until], found by asking it for one after the other."""
    at = trigger.next_ms(since)
    while at is not None and at <= until:
        yield at
        at = trigger.next_ms(at)


def overdue(entries: Mapping[str, Entry], now: int) -> list[str]:
    """Active schedules that still have something due at `now`, after all had time to settle.

    One that a full queue holds may have to wait longer than the others, but is looked at each second.
    """
    return [f"stuck: {name} at {entry.cursor}" for name, entry in entries.items() if _is_overdue(entry, now)]


def late(entries: Mapping[str, Entry], ledger: Sequence[LedgerEntry], since: int) -> Iterator[LedgerEntry]:
    """What was due after `since`, in the calm at the end, and not decided on time. A full queue is an excuse."""
    free = {name for name, one in entries.items() if not one.schedule.policy.queue_depth and not one.error}
    for entry in ledger:
        if entry.due > since and entry.kind in OWN and entry.schedule in free and entry.decided - entry.due > LATE_MS:
            yield entry


def _is_overdue(entry: Entry, now: int) -> bool:
    following = entry.schedule.trigger.next_ms(entry.cursor)
    if entry.status != "active" or following is None:
        return False
    is_held = entry.error.startswith("held")
    return ((entry.due or 0) if is_held else due_time(entry.schedule, following)) <= now


def _judge_life(life: Life, entries: Numbered) -> Iterator[str]:
    fired = 0
    for span in life.spans:
        own = [entry for index, entry in entries if span.first <= index < (span.last or 0)]
        fired += sum(1 for entry in own if entry.outcome == "enqueued")
        yield from _judge_span(life.id, span, own)
    if fired != life.fired:
        yield f"{life.id}: counted {life.fired} fires, {fired} were enqueued"


def _judge_span(name: str, span: Span, entries: Sequence[LedgerEntry]) -> Iterator[str]:
    expected = {*nominals(span.trigger, span.since, span.until or 0)} - {span.open} | (
        {span.carried} - {None, span.open}
    )
    decided: Counter[int] = Counter()
    for entry in entries:
        times = [entry.nominal] if entry.count == 1 else [*nominals(span.trigger, entry.nominal - 1, entry.until)]
        decided.update(times)
        if entry.count != len(times) or entry.until not in times[-1:]:
            yield f"{name}: a range says {entry.count}, its trigger {len(times)}: {entry}"
    for word, times in (
        ("lost", expected - decided.keys()),
        ("decided and not yielded", decided.keys() - expected),
        ("doubled", {at for at, count in decided.items() if count > 1}),
    ):
        if times:
            yield f"{name}: {len(times)} {word}: {sorted(times)[:3]}"


def _judge_pushed(ledger: Sequence[LedgerEntry], pushed: Mapping[str, int]) -> Iterator[str]:
    enqueued = Counter(entry.job_id for entry in ledger if entry.outcome == "enqueued")
    spared = {entry.job_id for entry in ledger if entry.outcome == "deduplicated"}
    for word, ids in (
        ("pushed twice", {job_id for job_id, count in pushed.items() if count > 1}),
        ("enqueued twice by the ledger", {job_id for job_id, count in enqueued.items() if count > 1}),
        ("enqueued by the ledger and never pushed", enqueued.keys() - pushed.keys()),
        ("pushed without an entry", pushed.keys() - enqueued.keys()),
        ("deduplicated and never pushed", spared - pushed.keys()),
    ):
        if ids:
            yield f"{len(ids)} {word}: {sorted(map(str, ids))[:3]}"
