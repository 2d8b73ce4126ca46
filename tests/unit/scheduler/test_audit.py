"""The ledger against the trigger."""

from __future__ import annotations

from scheduler.audit import audit
from scheduler.ports import LedgerEntry
from scheduler.triggers import IntervalTrigger

MINUTE = 60_000
TRIGGER = IntervalTrigger(60)


def entry(first: int, last: int | None = None, kind: str = "scheduled") -> LedgerEntry:
    """An entry over nominal times given in minutes."""
    until = first if last is None else last
    return LedgerEntry(
        schedule="s",
        nominal=first * MINUTE,
        until=until * MINUTE,
        count=until - first + 1,
        decided=0,
        outcome="enqueued",
        reason="",
        kind=kind,
        job_id=None,
        due=0,
    )


def found(cursor: int, *entries: LedgerEntry, since: int = 0) -> list[tuple[str, int, int, int]]:
    findings = audit("s", TRIGGER, cursor * MINUTE, entries, since * MINUTE)
    return [(item.kind, item.nominal // MINUTE, item.until // MINUTE, item.count) for item in findings]


def test_a_ledger_without_gaps_has_no_findings() -> None:
    assert found(6, entry(3), entry(1), entry(2), entry(4, 6)) == []
    assert found(0) == []


def test_a_gap_between_entries_is_told() -> None:
    assert found(9, entry(1), entry(4), entry(5, 9)) == [("missing", 2, 3, 2)]


def test_a_gap_before_the_cursor_is_told() -> None:
    assert found(5, entry(1), entry(2)) == [("missing", 3, 5, 3)]


def test_a_time_decided_twice_is_told() -> None:
    assert found(3, entry(1), entry(2), entry(2), entry(3)) == [("doubled", 2, 2, 1)]
    assert found(6, entry(1, 4), entry(3, 6)) == [("doubled", 3, 4, 2)]


def test_fires_by_hand_stand_beside() -> None:
    assert found(2, entry(1), entry(2), entry(2, kind="manual"), entry(1, kind="backfill")) == []


def test_what_an_older_rule_decided_is_not_judged() -> None:
    assert found(9, entry(1), entry(8), entry(9), since=7) == []
