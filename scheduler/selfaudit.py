"""The beat's own look at its past: one schedule at a time, lest fires wait; the ledger against the triggers.

A finding is a broken promise. It is logged as an error, and `rqbeat doctor` shows it with the cure; nothing is mended
unasked, since what went wrong may still be going wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import islice

from scheduler.audit import Finding, audit
from scheduler.readers import Reader
from shared.instants import iso

log = logging.getLogger("rqbeat.beat")

AT_ONCE = 1


def findings(reader: Reader, schedule_id: str) -> list[Finding]:
    """What is wrong with the ledger of one schedule. Two round trips.

    The cursor is read before the ledger, so that a decision in between is no finding. A schedule with a buffered fire
    has one nominal time that is not decided yet; such schedules are left out.
    """
    view = reader.schedule(schedule_id)
    if view.schedule is None or view.schedule.policy.overlap == "buffer":
        return []
    return audit(view.id, view.schedule.trigger, view.cursor, reader.history(view.id, most=1000), view.since)


class SelfAudit:
    """A chore: each call looks at the next schedule, and begins again after the last."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._left: Iterator[str] = iter(())

    def __call__(self) -> int:
        """How many findings there were. Raises StoreError."""
        found = [finding for schedule_id in self._next() for finding in findings(self._reader, schedule_id)]
        for item in found:
            log.error("%s: %d nominal times from %s %s", item.schedule, item.count, iso(item.nominal), item.kind)
        return len(found)

    def _next(self) -> list[str]:
        chosen = list(islice(self._left, AT_ONCE))
        if not chosen:
            self._left = self._reader.walk()
        return [schedule_id for schedule_id in chosen if self._reader.exists(schedule_id)]
