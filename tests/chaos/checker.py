"""The checker: what a run left in Redis, set against what the triggers say should have been decided. Pure but for
`gather`.

    E  job ids that were enqueued: by the ledger, and by the queues        K  nominal times decided against
    X  runs, where workers ran

    I1  no id in E twice                       I4  X is a subset of E; with more than one attempt, equal to it
    I2  E and K are disjoint, and together     I5  cursor = the latest of E and K; `fired` = |E|
        are what was expected
    I3  each of E has a job record; where workers ran it ended

It knows nothing of how the product decides. It has to fail for a committer that is wrong: `test_controls.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import redis

from scheduler.ports import LedgerEntry
from scheduler.readers import Reader
from scheduler.triggers import Trigger
from shared.ids import fire_job_id
from shared.keys import Keys

OWN = frozenset({"scheduled", "catchup"})
ENDED = frozenset({"finished", "failed", "canceled", "stopped"})
Nominal = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a run left. `runs` is None where no worker ran: then what was pushed is still in its queue."""

    ledger: Sequence[LedgerEntry]
    pushed: Counter[str]
    statuses: Mapping[str, str]
    cursors: Mapping[str, int]
    fired: Mapping[str, int]
    runs: Counter[str] | None = None


@dataclass(slots=True, kw_only=True)
class Verdict:
    """What the checker says. `gap` is the longest time between two decisions, in seconds."""

    fires: int = 0
    against: int = 0
    lost: set[Nominal] = field(default_factory=set)
    doubled: set[Nominal | str] = field(default_factory=set)
    gap: float = 0
    others: list[str] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """Everything that is wrong, each in a line; empty when nothing is."""
        lost = [f"I2: {len(self.lost)} lost: {_some(self.lost)}"] if self.lost else []
        doubled = [f"I1: {len(self.doubled)} doubled: {_some(self.doubled)}"] if self.doubled else []
        return [*lost, *doubled, *self.others]


def gather(client: redis.Redis, keys: Keys, ids: Sequence[str], runs: Counter[str] | None = None) -> Found:
    """Read everything that the checker looks at."""
    reader = Reader(client, keys)
    hashes = {name: client.hgetall(keys.schedule_prefix + name) for name in ids}
    return Found(
        ledger=reader.history(None, most=10_000_000)[::-1],
        pushed=_pushed(client, keys),
        statuses=_statuses(client, keys),
        cursors={name: int(row.get(b"cursor", 0)) for name, row in hashes.items()},  # type: ignore[union-attr]
        fired={name: int(row.get(b"fired", 0)) for name, row in hashes.items()},  # type: ignore[union-attr]
        runs=runs,
    )


def judge(found: Found, triggers: Mapping[str, Trigger], until: int, since: int = 0) -> Verdict:
    """Whether the invariants hold for schedules that were to be decided from `since` to `until` at least (ms).

    What is decided beyond that, up to a schedule's cursor, has to be as complete.
    """
    own = [entry for entry in found.ledger if entry.kind in OWN and entry.schedule in triggers]
    ends = {name: max(until, found.cursors[name]) for name in triggers}
    expected = {(name, at) for name, trigger in triggers.items() for at in nominals(trigger, since, ends[name])}
    enqueued = Counter((entry.schedule, entry.nominal) for entry in own if entry.outcome == "enqueued")
    against = Counter(at for entry in own if entry.outcome != "enqueued" for at in _covered(entry, triggers))
    verdict = Verdict(fires=len(enqueued), against=len(against), gap=_longest_gap(own))
    _judge_cover(verdict, expected, enqueued, against)
    if early := [entry for entry in own if entry.decided < entry.due]:
        verdict.others.append(f"early: {len(early)} decided before they were due: {_some(early)}")
    _judge_jobs(verdict, found, {fire_job_id(name, at): (name, at) for name, at in enqueued})
    _judge_counters(verdict, found, triggers, enqueued, against)
    return verdict


def nominals(trigger: Trigger, since: int, until: int) -> Iterator[int]:
    """The nominal times of a trigger in (since, until], found by asking it one after the other."""
    at = trigger.next_ms(since)
    while at is not None and at <= until:
        yield at
        at = trigger.next_ms(at)


def _covered(entry: LedgerEntry, triggers: Mapping[str, Trigger]) -> Iterator[Nominal]:
    """The nominal times that an entry covers; a count that disagrees shows as times of no schedule."""
    times = list(nominals(triggers[entry.schedule], entry.nominal - 1, entry.until))
    yield from ((entry.schedule, at) for at in times)
    yield from ((f"{entry.schedule}: count {entry.count} of {len(times)}", entry.nominal) for _ in range(
        abs(len(times) - entry.count)))  # fmt: skip


def _judge_cover(
    verdict: Verdict, expected: set[Nominal], enqueued: Counter[Nominal], against: Counter[Nominal]
) -> None:
    decided = enqueued + against
    verdict.lost |= expected - decided.keys()
    verdict.doubled |= {at for at, count in decided.items() if count > 1}
    if surplus := decided.keys() - expected:
        verdict.others.append(f"I2: {len(surplus)} decided that no trigger yields: {_some(surplus)}")


def _judge_jobs(verdict: Verdict, found: Found, ids: Mapping[str, Nominal]) -> None:
    without = ids.keys() - found.statuses.keys()
    if without:
        verdict.others.append(f"I3: {len(without)} without a job record: {_some(without)}")
    if found.runs is None:
        _judge_queues(verdict, found.pushed, ids)
    else:
        _judge_runs(verdict, found, found.runs, ids)


def _judge_queues(verdict: Verdict, pushed: Counter[str], ids: Mapping[str, Nominal]) -> None:
    verdict.doubled |= {job_id for job_id, count in pushed.items() if count > 1}
    verdict.lost |= {ids[job_id] for job_id in ids.keys() - pushed.keys()}
    if surplus := pushed.keys() - ids.keys():
        verdict.others.append(f"I1: {len(surplus)} queued that the ledger has not: {_some(surplus)}")


def _judge_runs(verdict: Verdict, found: Found, runs: Counter[str], ids: Mapping[str, Nominal]) -> None:
    ended = {job_id for job_id, status in found.statuses.items() if status in ENDED}
    for words, bad in (
        ("I3: not ended", ids.keys() - ended),
        ("I4: ran and was not enqueued", runs.keys() - ids.keys()),
        ("I4: never ran", ids.keys() - runs.keys()),
    ):
        if bad:
            verdict.others.append(f"{words}: {len(bad)}: {_some(bad)}")


def _judge_counters(
    verdict: Verdict,
    found: Found,
    triggers: Mapping[str, Trigger],
    enqueued: Counter[Nominal],
    against: Counter[Nominal],
) -> None:
    fired = Counter(name for name, _ in enqueued)
    latest: dict[str, int] = {}
    for name, at in (*enqueued, *against):
        latest[name] = max(at, latest.get(name, 0))
    for name in triggers:
        if found.cursors[name] != latest.get(name, found.cursors[name]):
            verdict.others.append(f"I5: {name}: cursor {found.cursors[name]}, latest decided {latest[name]}")
        if found.fired[name] != fired[name]:
            verdict.others.append(f"I5: {name}: fired {found.fired[name]}, enqueued {fired[name]}")


def _longest_gap(entries: Sequence[LedgerEntry]) -> float:
    times = sorted({entry.decided for entry in entries})
    return max((later - earlier for earlier, later in pairwise(times)), default=0) / 1000


def _pushed(client: redis.Redis, keys: Keys) -> Counter[str]:
    queues: Any = client.smembers(keys.rq_queues)
    lists: list[Any] = [client.lrange(queue, 0, -1) for queue in queues if client.type(queue) == b"list"]
    return Counter(job_id.decode() for ids in lists for job_id in ids)


def _statuses(client: redis.Redis, keys: Keys) -> dict[str, str]:
    """The job records that there are, whole ones only: without data nothing could run."""
    names = list(client.scan_iter(match=f"{keys.rq_job_prefix}*", count=1000))
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.hmget(name, "status", "data", "origin")
    rows = zip(names, pipe.execute(), strict=True)
    return {name.decode().removeprefix(keys.rq_job_prefix): row[0].decode() for name, row in rows if all(row)}


def _some(items: set[Any] | Any) -> str:
    return ", ".join(map(str, sorted(items, key=str)[:3])) + (" …" if len(items) > 3 else "")
