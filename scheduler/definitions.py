"""Definitions that a beat has loaded: a cache whose freshness is the revision, and whose size is bounded."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from scheduler.ports import DueRow, Timetable
from scheduler.schedule import Schedule
from shared.errors import NotFoundError

CACHED = 20_000


class Definitions:
    """Loaded definitions by id and revision; the least recently used are dropped. No wrong revision is returned."""

    def __init__(self, timetable: Timetable) -> None:
        self._timetable = timetable
        self._held: OrderedDict[str, tuple[int, Schedule]] = OrderedDict()

    def of(self, rows: Sequence[DueRow]) -> dict[str, tuple[int, Schedule] | Exception]:
        """Revision and definition for each row; an exception for one that can't be read, NotFoundError for none."""
        missing = [row.id for row in rows if self._held.get(row.id, (0,))[0] != row.revision]
        loaded = dict(self._timetable.load(missing)) if missing else {}
        found = {row.id: loaded.get(row.id) or self._held.get(row.id) or NotFoundError("it is gone") for row in rows}
        self._keep((name, entry) for name, entry in found.items() if isinstance(entry, tuple))
        return found

    def forget(self, schedule_id: str) -> None:
        self._held.pop(schedule_id, None)

    def _keep(self, entries: Iterable[tuple[str, tuple[int, Schedule]]]) -> None:
        for schedule_id, entry in entries:
            self._held[schedule_id] = entry
            self._held.move_to_end(schedule_id)
        while len(self._held) > CACHED:
            self._held.popitem(last=False)
