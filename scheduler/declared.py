"""What an app declares, against what is stored: compared, and applied unless that looks like an accident.

An older version of the app is not applied over a newer one, also where both start in the same moment: a version takes
over before it writes, and what it writes is refused once another has taken over.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from scheduler import reconcile
from scheduler.admin import ATTEMPTS, Admin
from scheduler.readers import Reader
from scheduler.schedule import Schedule, definition_digest
from shared.clock import Clock
from shared.errors import RefusedChangeError, RqbeatError, StoreUnavailableError
from shared.redisio.connection import shown

log = logging.getLogger("rqbeat.beat")

REASON = "declared by the app"
REASON_GONE = "no longer declared by the app"


class Declared:
    """The schedules of one app in one version; without a version the last start wins. Blocking; raises StoreError."""

    def __init__(
        self, schedules: Sequence[Schedule], version: str | None, reader: Reader, admin: Admin, clock: Clock
    ) -> None:
        self._clock = clock
        self._schedules = schedules
        self._version = version
        self._reader = reader
        self._admin = admin

    def compare(self) -> reconcile.Diff:
        """What would change."""
        declared = {schedule.id: definition_digest(schedule) for schedule in self._schedules}
        return reconcile.diff(declared, self._reader.digests(list(declared)), self._reader.declared())

    def apply(self, found: reconcile.Diff, *, force: bool = False) -> reconcile.Diff:
        """Make the changes of a diff, or of a new one where another version had the say; what was changed.

        Raises RefusedChangeError and changes nothing when it looks like an accident, unless forced; and in the middle,
        forced or not, when another version takes over meanwhile.
        """
        for _ in range(ATTEMPTS):
            stored = self._reader.app_version()
            if not force:
                self._refuse(found, stored)
            if not self._version or stored == self._version.encode():
                self._write(found)
                return found
            self._admin.take_over(self._version, stored)
            found = self.compare()
        raise StoreUnavailableError("the app's version keeps changing; its schedules were not stored")

    def _write(self, found: reconcile.Diff) -> None:
        touched = {*found.add, *found.change}
        chosen = [item for item in self._schedules if item.id in touched and self._is_plannable(item)]
        self._admin.upsert(chosen, REASON, self._version)
        self._admin.remove_all(found.remove, REASON_GONE, self._version)

    def _is_plannable(self, schedule: Schedule) -> bool:
        """A trigger that raises when asked for its next fire sets its schedule aside; the others are stored."""
        try:
            schedule.trigger.next_ms(self._clock.now_ms())
        except RqbeatError as error:
            log.error("%s: set aside: it can't be planned: %s", schedule.id, error)  # noqa: TRY400 - one line
            return False
        return True

    def _refuse(self, found: reconcile.Diff, stored: bytes | None) -> None:
        theirs = shown(stored or b"")
        if reconcile.is_older(self._version, theirs):
            raise RefusedChangeError(f"version {theirs} of the app is stored, and this is the older {self._version}")
        if refusal := found.refusal():
            raise RefusedChangeError(refusal)
