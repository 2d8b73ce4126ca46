"""Reading what is stored, for people and their scripts: schedules, the ledger, presence. Nothing here changes a key.

The `to_json` shapes are public: users script against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgpack

from scheduler.ports import LedgerEntry
from scheduler.reconcile import Stored
from scheduler.schedule import Schedule, unpack_definition
from shared.errors import NotFoundError, RqbeatError
from shared.instants import iso
from shared.keys import Keys
from shared.redisio.connection import Client, store_errors, text

_FIELDS = ("definition", "status", "next", "last", "owner", "error", "note", "cursor", "since")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleView:
    """A schedule as it stands. `schedule` is None when its definition can't be read; `error` says why, or why it waits.

    `next` and `last` are nominal times in ms: of the next fire, and of the last one that was enqueued. The schedule is
    decided up to `cursor`; its present trigger has been in force since `since`.
    """

    id: str
    schedule: Schedule | None
    status: str
    owner: str
    next: int | None
    last: int | None
    cursor: int
    since: int
    runs: int
    errors: int
    error: str
    note: str

    def to_json(self) -> dict[str, Any]:
        """The row of `list --json`."""
        schedule = self.schedule
        return {
            "id": self.id,
            "name": schedule.name if schedule else None,
            "status": self.status,
            "trigger": schedule.trigger.describe() if schedule else None,
            "trigger_type": schedule.trigger.trigger_type.value if schedule else None,
            "timezone": schedule.trigger.timezone if schedule else None,
            "job": schedule.call.job if schedule else None,
            "queue": schedule.options.queue if schedule else None,
            "next_fire": iso(self.next) if self.next is not None else None,
            "last_fire": iso(self.last) if self.last is not None else None,
            "runs": self.runs,
            "errors": self.errors,
            "tags": list(schedule.tags) if schedule else [],
            "owner": self.owner,
            "error": self.error or None,
            "note": self.note or (schedule.note if schedule else "") or None,
        }


class Reader:
    """Reads of one namespace. Blocking; raises StoreError."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def ids(self) -> list[str]:
        """The ids of all schedules."""
        with store_errors():
            return sorted(text(member) for member in self._client.smembers(self._keys.schedules))

    def exists(self, schedule_id: str) -> bool:
        """Whether there is such a schedule."""
        with store_errors():
            return bool(self._client.sismember(self._keys.schedules, schedule_id))

    def schedules(self) -> list[ScheduleView]:
        """All schedules by next fire, those without one last."""
        ids = self.ids()
        views = [view for start in range(0, len(ids), 1000) for view in self._views(ids[start : start + 1000])]
        return sorted(views, key=lambda view: (view.next is None, view.next or 0, view.id))

    def schedule(self, schedule_id: str) -> ScheduleView:
        """One schedule. Raises NotFoundError."""
        views = self._views([schedule_id])
        if not views:
            raise no_such(schedule_id)
        return views[0]

    def definition(self, schedule_id: str) -> Schedule:
        """The schedule itself. Raises NotFoundError, and ConfigurationError when this version can't read it."""
        with store_errors():
            packed = self._client.hget(self._keys.schedule_prefix + schedule_id, "definition")
        if packed is None:
            raise no_such(schedule_id)
        return unpack_definition(cast("bytes", packed))

    def definitions(self) -> dict[str, Stored]:
        """Owner and definition of every schedule, byte for byte."""
        ids = self.ids()
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            for schedule_id in ids:
                pipe.hmget(self._keys.schedule_prefix + schedule_id, "owner", "definition")
            rows = pipe.execute()
        return {
            schedule_id: Stored(owner=text(owner or b""), definition=definition or b"")
            for schedule_id, (owner, definition) in zip(ids, rows, strict=True)
        }

    def app_version(self) -> str | None:
        """The version of the app whose declarations are stored."""
        with store_errors():
            found = self._client.get(self._keys.app_version)
        return None if found is None else text(found)

    def history(self, schedule_id: str | None = None, outcome: str | None = None, most: int = 50) -> list[LedgerEntry]:
        """The latest decisions, newest first: of one schedule, or over all."""
        entries = self._own_ledger(schedule_id) if schedule_id else self._ledger()
        found: list[LedgerEntry] = []
        for entry in entries:
            if len(found) >= most:
                break
            if outcome is None or entry.outcome == outcome:
                found.append(entry)
        return found

    def _views(self, ids: Sequence[str]) -> list[ScheduleView]:
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            for schedule_id in ids:
                pipe.hmget(self._keys.schedule_prefix + schedule_id, *_FIELDS)
                pipe.hmget(self._keys.stats_prefix + schedule_id, "runs", "errors")
            rows = pipe.execute(raise_on_error=False)
        pairs = zip(ids, rows[::2], rows[1::2], strict=True)
        return [view for schedule_id, row, stats in pairs if (view := _view(schedule_id, row, stats))]

    def _own_ledger(self, schedule_id: str) -> Iterator[LedgerEntry]:
        with store_errors():
            rows = self._client.lrange(self._keys.ledger_prefix + schedule_id, 0, -1)
        return (_entry(cast("bytes", row)) for row in reversed(rows))

    def _ledger(self) -> Iterator[LedgerEntry]:
        """The stream, read backwards in pages."""
        end = "+"
        while True:
            with store_errors():
                page: Any = self._client.xrevrange(self._keys.ledger, max=end, count=500)
            yield from (_entry(fields[b"e"]) for _, fields in page)
            if len(page) < 500:
                return
            end = f"({text(page[-1][0])}"


def no_such(schedule_id: str) -> NotFoundError:
    """The error for an id that names no schedule."""
    return NotFoundError(f"there is no schedule {schedule_id!r}; `rqbeat list` shows those there are")


def _view(schedule_id: str, row: Any, stats: Any) -> ScheduleView | None:
    fields = _unreadable(row) if isinstance(row, Exception) else dict(zip(_FIELDS, row, strict=True))
    if fields["status"] is None:
        return None
    schedule, trouble = _definition(fields["definition"])
    runs, errors = (None, None) if isinstance(stats, Exception) else stats
    return ScheduleView(
        id=schedule_id,
        schedule=schedule,
        status=text(fields["status"]),
        owner=text(fields["owner"] or b""),
        next=int(fields["next"]) if fields["next"] else None,
        last=int(fields["last"]) if fields["last"] else None,
        cursor=int(fields["cursor"] or 0),
        since=int(fields["since"] or 0),
        runs=int(runs or 0),
        errors=int(errors or 0),
        error=trouble or text(fields["error"] or b""),
        note=text(fields["note"] or b""),
    )


def _unreadable(error: Exception) -> dict[str, Any]:
    """The fields of a schedule whose key is not a hash."""
    return {**dict.fromkeys(_FIELDS), "status": b"error", "error": str(error)}


def _definition(packed: bytes | None) -> tuple[Schedule | None, str]:
    """The schedule, or the reason why it can't be read. What is stored stays as it is."""
    try:
        return unpack_definition(packed or b""), ""
    except (RqbeatError, ValueError, TypeError, KeyError) as error:
        return None, f"its definition can't be read: {error}"


def _entry(packed: bytes) -> LedgerEntry:
    schedule, nominal, until, count, decided, outcome, reason, kind, job_id, due = msgpack.unpackb(packed, raw=False)
    return LedgerEntry(
        schedule=schedule,
        nominal=nominal,
        until=until,
        count=count,
        decided=decided,
        outcome=outcome,
        reason=reason,
        kind=kind,
        job_id=job_id or None,
        due=due,
    )
