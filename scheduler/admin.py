"""Changing what is stored: the one API behind the manager and the commands. It works with or without a running beat.

Each change is one atomic step in Redis, bound to the revision that it was made from, and recorded with who and why. A
beat that is about to fire an older definition is told so by the commit. Nothing here moves a cursor, but for a new or
changed trigger and a resumed schedule, which start from Redis' time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from scheduler.audit import Finding
from scheduler.planner import Against, due_time, first_cursor, left_by_change, missed_while_paused
from scheduler.ports import Status
from scheduler.readers import no_such
from scheduler.schedule import Schedule, pack_definition, unpack_definition
from scheduler.store import LEDGER_BOUND, LEDGER_BOUND_EACH, about, about_range, definition_fields
from scheduler.triggers import to_data
from shared.clock import Clock
from shared.errors import ConflictError, RefusedChangeError, RqbeatError, StoreRefusedError, StoreUnavailableError
from shared.keys import Keys
from shared.redisio.connection import Client, server_now, store_errors, text
from shared.redisio.scripts import Call, Script, pack

CONTROL_BOUND = 10_000
BATCH = 500
ATTEMPTS = 5
RETRY_MS = 60_000

log = logging.getLogger("rqbeat.beat")

Change = Literal["added", "changed", "unchanged", "refused"]
Action = Literal["pause", "resume", "cancel", "remove"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A schedule as it is stored. `definition` is None when nothing is."""

    revision: int
    status: Status
    cursor: int
    definition: bytes | None


class Admin:
    """Every change to schedules in one namespace, in the name of `actor`. Blocking; raises StoreError."""

    def __init__(self, client: Client, keys: Keys, clock: Clock, actor: str) -> None:
        self._client = client
        self._keys = keys
        self._clock = clock
        self._actor = actor
        self._upsert = Script(client, "upsert")
        self._control = Script(client, "control")
        self._mend = Script(client, "mend")
        self._take_over = Script(client, "take_over")

    def upsert(
        self, schedules: Sequence[Schedule], reason: str = "", app_version: str | None = None
    ) -> dict[str, Change]:
        """Add or replace schedules by id. One that is stored just so is left alone: its status and cursor too.

        One whose key is none of ours is refused and logged, and the others are stored. A change made by somebody else
        in between is not overwritten unseen: it is read and the upsert done again. With `app_version` raises
        RefusedChangeError once another version of the app has taken over (`take_over`); what is left is not written.
        """
        changes: dict[str, Change] = {}
        for start in range(0, len(schedules), BATCH):
            changes |= self._upsert_batch(schedules[start : start + BATCH], reason, app_version)
        return changes

    def replace(self, schedule: Schedule, revision: int, reason: str = "") -> int:
        """Replace a schedule that was read at `revision` (0: add it); the new revision.

        Raises ConflictError, and changes nothing, when somebody else has changed it since.
        """
        held = self.held([schedule.id])
        if held[schedule.id].revision == revision:
            ((code, made),) = self._write([schedule], held, reason, None)
            if code == "refused":
                raise StoreRefusedError(f"schedule {schedule.id!r} was not stored: {made}")
            if code != "conflict":
                return made
        raise ConflictError(f"schedule {schedule.id!r} has changed since revision {revision} was read: read it again")

    def pause(self, schedule_id: str, reason: str = "", until: int | None = None) -> bool:
        """Stop deciding fires until resumed, by a beat at `until` (ms) if it is given.

        Whether anything changed. Raises NotFoundError.
        """
        return self._act(schedule_id, {"action": "pause", "until": until or False}, reason) == "done"

    def resume(self, schedule_id: str, reason: str = "") -> bool:
        """Decide fires again: from now (`on_resume="discard"`) or with what was missed. Whether anything changed."""
        for _ in range(ATTEMPTS):
            code = self._act(schedule_id, self._resumption(schedule_id), reason)
            if code != "conflict":
                return code == "done"
        raise StoreUnavailableError(f"schedule {schedule_id!r} keeps changing; it was not resumed")

    def resume_due(self) -> int:
        """Resume what was paused for a while that is over; how many."""
        with store_errors():
            now = self._clock.now_ms()
            due: Any = self._client.zrange(self._keys.resumptions, "-inf", now, byscore=True, offset=0, num=BATCH)
        return sum(self._resume_one(schedule_id) for schedule_id in due)

    def _resume_one(self, schedule_id: bytes) -> bool:
        """One that can't be resumed keeps its pause, for a minute more at least; the others go on."""
        try:
            return self.resume(text(schedule_id), "its pause was over")
        except StoreUnavailableError:
            raise
        except (RqbeatError, ValueError) as error:
            log.error("%r can't be resumed: %s", schedule_id, error)  # noqa: TRY400 - one line, no traceback
        with store_errors():
            self._client.zadd(self._keys.resumptions, {schedule_id: self._clock.now_ms() + RETRY_MS})
        return False

    def cancel(self, schedule_id: str, reason: str = "") -> bool:
        """Stop deciding fires for good; the schedule stays to be looked at. Whether anything changed."""
        return self._act(schedule_id, {"action": "cancel"}, reason) == "done"

    def remove(self, schedule_id: str, reason: str = "") -> bool:
        """Forget a schedule. Jobs that it enqueued are not touched."""
        return self._act(schedule_id, {"action": "remove"}, reason) == "done"

    def remove_all(self, ids: Sequence[str], reason: str = "", app_version: str | None = None) -> None:
        """Forget schedules, without waiting for each; those that are gone already are no error.

        With `app_version` raises RefusedChangeError as `upsert` does.
        """
        action: dict[str, object] = {"action": "remove", "app_version": app_version or False}
        calls = [self._control_call(schedule_id, action, reason) for schedule_id in ids]
        for schedule_id, code in zip(ids, self._control.each(calls, in_flight=BATCH), strict=True):
            self._check_control(schedule_id, text(code), may_be_gone=True)

    def mend(self, finding: Finding) -> None:
        """Write nominal times that nothing was decided about into the ledger, as missed(error)."""
        keys, name = self._keys, finding.schedule
        own = [keys.ledger_prefix + name, keys.schedule_prefix + name]
        arguments = {
            "id": name,
            "count": finding.count,
            "about": about(name, finding.nominal, finding.until, finding.count, "catchup", None, finding.nominal),
            "bounds": [LEDGER_BOUND, LEDGER_BOUND_EACH],
            "actor": self._actor,
            "bound": CONTROL_BOUND,
        }
        self._mend([keys.ledger, *own, keys.control], [pack(arguments)])

    def take_over(self, version: str, seen: bytes | None) -> bool:
        """Let a version of the app be the one whose declared schedules are stored, if `seen` still is.

        From then on an older one that is in the middle of an `upsert` or `remove_all` gets no further.
        """
        return bool(self._take_over([self._keys.app_version], [version, seen or b""]))

    def held(self, ids: Sequence[str]) -> dict[str, Held]:
        """How schedules are stored; absent ones with revision 0. One round trip."""
        with store_errors():
            pipe = self._client.pipeline(transaction=False)
            for schedule_id in ids:
                pipe.hmget(self._keys.schedule_prefix + schedule_id, "rev", "status", "cursor", "definition")
            rows = pipe.execute(raise_on_error=False)
        return {schedule_id: _held(row) for schedule_id, row in zip(ids, rows, strict=True)}

    def _upsert_batch(self, schedules: Sequence[Schedule], reason: str, app_version: str | None) -> dict[str, Change]:
        changes: dict[str, Change] = {}
        left = list(schedules)
        for _ in range(ATTEMPTS):
            held = self.held([schedule.id for schedule in left])
            same = [item for item in left if held[item.id].definition == pack_definition(item)]
            changes |= dict.fromkeys((item.id for item in same), "unchanged")
            left = [item for item in left if item.id not in changes]
            if not left:
                return changes
            codes = self._write(left, held, reason, app_version)
            changes |= {item.id: code for item, (code, _) in zip(left, codes, strict=True) if code != "conflict"}  # type: ignore[misc]
            left = [item for item in left if item.id not in changes]
        if left:
            raise StoreUnavailableError(f"schedule {left[0].id!r} keeps changing; it was not written")
        return changes

    def _write(
        self, schedules: Sequence[Schedule], held: dict[str, Held], reason: str, app_version: str | None
    ) -> list[tuple[str, int]]:
        keys, now = self._keys, server_now(self._client)
        header = {
            "schedule": keys.schedule_prefix,
            "actor": self._actor,
            "reason": reason,
            "bound": CONTROL_BOUND,
            "own_ledger": keys.ledger_prefix,
            "bounds": [LEDGER_BOUND, LEDGER_BOUND_EACH],
            "app_version": app_version or False,
        }
        items = [_item(schedule, held[schedule.id], now) for schedule in schedules]
        reply = self._upsert(
            [keys.schedules, keys.timetable, keys.control, keys.wake, keys.ledger, keys.declared, keys.app_version],
            [pack(header), pack(items)],
        )
        if reply == b"superseded":
            raise _superseded()
        for schedule, (code, why) in zip(schedules, reply, strict=True):
            if code == b"refused":
                log.error("%s: not stored: %s", schedule.id, text(why))
        return [(text(code), revision) for code, revision in reply]

    def _act(self, schedule_id: str, arguments: dict[str, object], reason: str) -> str:
        code = text(self._control(*self._control_call(schedule_id, arguments, reason)))
        self._check_control(schedule_id, code)
        return code

    def _control_call(self, schedule_id: str, arguments: dict[str, object], reason: str) -> Call:
        common = {
            "id": schedule_id,
            "actor": self._actor,
            "reason": reason,
            "bound": CONTROL_BOUND,
            "bounds": [LEDGER_BOUND, LEDGER_BOUND_EACH],
        }
        return self._control_keys(schedule_id), [pack({**common, **arguments})]

    def _check_control(self, schedule_id: str, code: str, *, may_be_gone: bool = False) -> None:
        if code == "superseded":
            raise _superseded()
        if code == "gone" and not may_be_gone:
            raise no_such(schedule_id)
        if code.startswith("error: "):
            raise StoreRefusedError(f"schedule {schedule_id!r} was not changed: {code.removeprefix('error: ')}")

    def _resumption(self, schedule_id: str) -> dict[str, object]:
        """What resuming comes to, planned from what is stored now."""
        held = self.held([schedule_id])[schedule_id]
        schedule = _unpacked(schedule_id, held)
        moved, missed = missed_while_paused(schedule, held.cursor, server_now(self._client))
        following = schedule.trigger.next_ms(moved)
        return {
            "action": "resume",
            "revision": held.revision,
            "cursor": held.cursor,
            "moved": moved,
            "due": False if following is None else due_time(schedule, following),
            "missed": about_range(schedule_id, missed) if missed else False,
        }

    def _control_keys(self, schedule_id: str) -> list[str]:
        keys = self._keys
        common = [keys.schedules, keys.timetable, keys.control, keys.wake, keys.schedule_prefix + schedule_id]
        own = (keys.ledger_prefix, keys.stats_prefix, keys.outstanding_prefix, keys.waiting_prefix)
        return [
            *common,
            keys.ledger,
            *(prefix + schedule_id for prefix in own),
            keys.waiters,
            keys.resumptions,
            keys.declared,
            keys.app_version,
        ]


def _superseded() -> RefusedChangeError:
    """Another version of the app has taken over."""
    return RefusedChangeError("another version of the app has started meanwhile, and its schedules are the ones stored")


def _item(schedule: Schedule, held: Held, now: int) -> list[object]:
    """One row of the upsert: the next due time is worked out here, since only Python knows triggers."""
    changed = _trigger_changed(schedule, held)
    cursor = first_cursor(schedule, now) if not held.revision else max(held.cursor, now if changed else 0)
    following = schedule.trigger.next_ms(cursor)
    left = _left(held, now) if changed and held.revision else None
    fields = [part for pair in definition_fields(schedule).items() for part in pair]
    return [
        schedule.id,
        held.revision,
        cursor,
        changed,
        False if following is None else due_time(schedule, following),
        fields,
        [held.cursor, about_range(schedule.id, left)] if left else False,
        schedule.owner == "app",
    ]


def _left(held: Held, now: int) -> Against | None:
    """What a changed trigger leaves undecided; nothing where the old one can't be read or was at rest."""
    if held.status != "active" or held.definition is None:
        return None
    try:
        return left_by_change(unpack_definition(held.definition), held.cursor, now)
    except (ValueError, KeyError, TypeError):
        return None


def _trigger_changed(schedule: Schedule, held: Held) -> bool:
    if held.definition is None:
        return True
    try:
        return to_data(unpack_definition(held.definition).trigger) != to_data(schedule.trigger)
    except ValueError:
        return True  # what was stored can't be read, so nothing of it can be kept


def _held(row: Sequence[bytes | None] | Exception) -> Held:
    """What can't be read counts as absent: a change of it is refused by Redis, with the reason."""
    if isinstance(row, Exception):
        return Held(revision=0, status="active", cursor=0, definition=None)
    revision, status, cursor, definition = row
    return Held(
        revision=int(revision or 0),
        status=text(status or b"active"),  # type: ignore[arg-type]
        cursor=int(cursor or 0),
        definition=definition,
    )


def _unpacked(schedule_id: str, held: Held) -> Schedule:
    if not held.definition:
        raise no_such(schedule_id)
    return unpack_definition(held.definition)
