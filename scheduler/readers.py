"""Reading what is stored, for people and their scripts: schedules, the ledger, presence. Nothing here changes a key.

The `to_json` shapes are public: users script against them. One value that can't be read hides nothing else: what holds
it is shown by its name, with the error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgpack

from scheduler.ports import LedgerEntry
from scheduler.schedule import Schedule, unpack_definition
from shared.errors import ConfigurationError, NotFoundError, RqbeatError, StoreError
from shared.instants import iso
from shared.keys import Keys
from shared.redisio.connection import Client, shown, store_errors
from shared.redisio.scripts import Script

_FIELDS = ("definition", "status", "last", "owner", "error", "note", "cursor", "since")
_NUMBERS = ("last", "cursor", "since")
_COUNTERS = ("runs", "errors")
_LAST_MS = 253_402_300_799_999

PAGE = 500
DIGESTS_AT_ONCE = 1000

UNREADABLE = "unreadable"
"""The outcome and kind that stand for a ledger entry which can't be read; its reason says why."""


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
        self._digests = Script(client, "digests")

    def ids(self) -> list[str]:
        """The ids of all schedules; what is no UTF-8 can be no id."""
        with store_errors():
            return self._members()[0]

    def exists(self, schedule_id: str) -> bool:
        """Whether there is such a schedule."""
        with store_errors():
            return bool(self._client.sismember(self._keys.schedules, schedule_id))

    def schedules(self) -> list[ScheduleView]:
        """All schedules by next fire, those without one last."""
        with store_errors():
            ids, others = self._members()
        views = [view for start in range(0, len(ids), 1000) for view in self._views(ids[start : start + 1000])]
        views += [_no_id(name) for name in others]
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
        schedule, trouble = _definition(cast("bytes", packed))
        if schedule is None:
            raise ConfigurationError(f"schedule {schedule_id!r}: {trouble}")
        return schedule

    def declared(self) -> set[str]:
        """The ids of the schedules that an app declares."""
        with store_errors():
            members = cast("set[bytes]", self._client.smembers(self._keys.declared))
        return {shown(member) for member in members if _is_text(member)}

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        """What the definitions of schedules come to; "" for one that is absent or can't be read."""
        found: dict[str, str] = {}
        for start in range(0, len(ids), DIGESTS_AT_ONCE):
            chunk = ids[start : start + DIGESTS_AT_ONCE]
            found |= zip(chunk, map(shown, self._digests([], [self._keys.schedule_prefix, *chunk])), strict=True)
        return found

    def walk(self) -> Iterator[str]:
        """The ids of all schedules in no order, read in small pieces as they are asked for; some may come twice."""
        cursor: Any = 0
        while True:
            with store_errors():
                cursor, members = cast("Any", self._client.sscan(self._keys.schedules, cursor, count=PAGE))
            yield from (shown(member) for member in members if _is_text(member))
            if not cursor:
                return

    def app_version(self) -> bytes | None:
        """The version of the app whose declarations are stored; as it lies there, since it is compared with that."""
        with store_errors():
            return cast("bytes | None", self._client.get(self._keys.app_version))

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
                pipe.hmget(self._keys.stats_prefix + schedule_id, *_COUNTERS)
            rows = pipe.execute(raise_on_error=False)
        pairs = zip(ids, rows[::2], rows[1::2], strict=True)
        return [view for schedule_id, row, stats in pairs if (view := _view(schedule_id, row, stats))]

    def _members(self) -> tuple[list[str], list[str]]:
        """The ids of schedules, and what can't be one, as it is shown."""
        members = cast("set[bytes]", self._client.smembers(self._keys.schedules))
        ids = [member for member in members if _is_text(member)]
        return sorted(map(shown, ids)), sorted(map(shown, members.difference(ids)))

    def _own_ledger(self, schedule_id: str) -> Iterator[LedgerEntry]:
        try:
            with store_errors():
                rows = cast("list[bytes]", self._client.lrange(self._keys.ledger_prefix + schedule_id, 0, -1))
        except StoreError as error:
            if "WRONGTYPE" not in str(error):
                raise
            return iter((_unreadable_entry(schedule_id, error),))
        return (_entry(row, schedule_id) for row in reversed(rows))

    def _ledger(self) -> Iterator[LedgerEntry]:
        """The newest first, in pages counted from the list's beginning: what is appended meanwhile moves nothing."""
        end = self._ledger_length()
        while end > 0:
            with store_errors():
                page = cast("list[bytes]", self._client.lrange(self._keys.ledger, max(0, end - PAGE), end - 1))
            yield from (_entry(row, "?") for row in reversed(page))
            end -= PAGE

    def _ledger_length(self) -> int:
        with store_errors():
            return self._client.llen(self._keys.ledger)


def no_such(schedule_id: str) -> NotFoundError:
    """The error for an id that names no schedule."""
    return NotFoundError(f"there is no schedule {schedule_id!r}; `rqbeat list` shows those there are")


def _view(schedule_id: str, row: Any, stats: Any) -> ScheduleView | None:
    fields = _unreadable(row) if isinstance(row, Exception) else dict(zip(_FIELDS, row, strict=True))
    if not any(fields.values()):
        return None
    schedule, trouble = _definition(fields["definition"])
    numbers, problems = _numbers({**{name: fields[name] for name in _NUMBERS}, **_counters(stats)})
    following, unplanned = _next(schedule, fields["status"], numbers["cursor"])
    error = shown(fields["error"] or b"") or unplanned
    return ScheduleView(
        id=schedule_id,
        schedule=schedule,
        status=shown(fields["status"] or b"unknown"),
        owner=shown(fields["owner"] or b""),
        next=following,
        last=numbers["last"],
        cursor=numbers["cursor"] or 0,
        since=numbers["since"] or 0,
        runs=numbers["runs"] or 0,
        errors=numbers["errors"] or 0,
        error="; ".join(filter(None, [trouble or error, *problems])),
        note=shown(fields["note"] or b""),
    )


def _next(schedule: Schedule | None, status: bytes | None, cursor: int | None) -> tuple[int | None, str]:
    """The next nominal time of an active schedule, which follows from its cursor; or why there is none."""
    if schedule is None or status != b"active" or cursor is None:
        return None, ""
    try:
        return schedule.trigger.next_ms(cursor), ""
    except RqbeatError as error:
        return None, f"it can't be planned: {error}"


def _counters(stats: Any) -> dict[str, Any]:
    return {"runs": stats, "errors": None} if isinstance(stats, Exception) else dict(zip(_COUNTERS, stats, strict=True))


def _numbers(fields: Mapping[str, Any]) -> tuple[dict[str, int | None], list[str]]:
    """Fields as numbers, None for those that are none; and what is wrong with those."""
    found = {name: int(value) if _is_number(value) else None for name, value in fields.items()}
    problems = [
        f"its {name} can't be read: {value if isinstance(value, Exception) else shown(value)[:60]}"
        for name, value in fields.items()
        if value and found[name] is None
    ]
    return found, problems


def _is_number(value: Any) -> bool:
    return isinstance(value, bytes) and re.fullmatch(rb"-?[0-9]{1,15}", value) is not None and _is_instant(int(value))


def _is_instant(ms: object) -> bool:
    """Whether a number of ms lies within the years that can be shown."""
    return isinstance(ms, int | float) and not isinstance(ms, bool) and abs(ms) <= _LAST_MS


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _no_id(name: str) -> ScheduleView:
    """What stands for a member of the set of schedules that names none."""
    view = _view(name, ValueError("its id is not UTF-8 text"), (None, None))
    assert view is not None  # noqa: S101 - for the type checker: an error always makes a view
    return view


def _unreadable(error: Exception) -> dict[str, Any]:
    """The fields of a schedule whose key is not a hash."""
    return {**dict.fromkeys(_FIELDS), "status": b"error", "definition": error}


def _definition(packed: Any) -> tuple[Schedule | None, str]:
    """The schedule, or the reason why it can't be read. What is stored stays as it is."""
    if isinstance(packed, Exception):
        return None, f"it can't be read: {packed}"
    try:
        return unpack_definition(packed or b""), ""
    except (RqbeatError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        return None, f"its definition can't be read: {error}"


def _entry(packed: bytes, schedule_id: str) -> LedgerEntry:
    """An entry as it was packed. `schedule_id` stands in where it can't be read."""
    try:
        return _unpacked(packed)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        return _unreadable_entry(schedule_id, error)


def _unpacked(packed: bytes) -> LedgerEntry:
    decided, outcome, reason, schedule, nominal, until, count, kind, job_id, due = msgpack.unpackb(packed, raw=False)
    if not all(map(_is_instant, (nominal, until, count, decided, due))):
        raise ValueError("a number is out of range or none")
    if not all(isinstance(part, str) for part in (schedule, outcome, kind)):
        raise TypeError("a name is no text")
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


def _unreadable_entry(schedule_id: str, error: Exception) -> LedgerEntry:
    return LedgerEntry(
        schedule=schedule_id,
        nominal=0,
        until=0,
        count=1,
        decided=0,
        outcome=UNREADABLE,
        reason=str(error)[:200] or type(error).__name__,
        kind=UNREADABLE,
        job_id=None,
        due=0,
    )
