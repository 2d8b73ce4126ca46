"""The ledger against the triggers: was every nominal time decided, and none twice? Pure.

What the ledger still holds of a schedule is compared with what its trigger yields in that span, up to the cursor. Only
the schedule's own fires count; those by hand stand beside them. A changed trigger starts a new span: what an older rule
decided is judged by the newer one only from where the newer one began, which the caller passes as `since`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from scheduler.ports import LedgerEntry
from scheduler.triggers import Trigger

OWN = frozenset({"scheduled", "catchup"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Nominal times from `nominal` to `until` (ms), `count` of them, that no entry covers, or more than one."""

    schedule: str
    kind: Literal["missing", "doubled"]
    nominal: int
    until: int
    count: int


def audit(
    schedule_id: str, trigger: Trigger, cursor: int, entries: Sequence[LedgerEntry], since: int = 0
) -> list[Finding]:
    """What is wrong between the earliest entry after `since` and the cursor; `entries` come in any order.

    A fire that still waits for an earlier job (overlap buffer) has no entry yet: it shows as missing.
    """
    own = sorted((e for e in entries if e.kind in OWN and e.nominal > since), key=lambda e: (e.nominal, e.until))
    if not own:
        return []
    findings = [finding for one, two in pairwise(own) for finding in _between(schedule_id, trigger, one.until, two)]
    last = max(entry.until for entry in own)
    return [*findings, *_missing(schedule_id, trigger, last, cursor)]


def _between(schedule_id: str, trigger: Trigger, until: int, following: LedgerEntry) -> Iterator[Finding]:
    if following.nominal <= until:
        count = trigger.count_ms(following.nominal - 1, min(until, following.until))
        yield Finding(schedule=schedule_id, kind="doubled", nominal=following.nominal, until=until, count=max(1, count))
    else:
        yield from _missing(schedule_id, trigger, until, following.nominal - 1)


def _missing(schedule_id: str, trigger: Trigger, after: int, until: int) -> Iterator[Finding]:
    count = trigger.count_ms(after, until) if until > after else 0
    first, last = trigger.next_ms(after), trigger.prev_ms(until + 1)
    if count and first is not None and last is not None:
        yield Finding(schedule=schedule_id, kind="missing", nominal=first, until=last, count=count)
