"""`self.ctx` of a run: the fire it belongs to, the attempt it is, and what it may write down durably."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any

from shared.codec import decode
from shared.context import OnDoubt
from shared.payload import FireContext
from worker.once import once
from worker.site import Site


class RunContext:
    """What `shared.context.JobContext` promises. Its instants are epoch seconds."""

    __slots__ = ("_checkpoint", "_fire", "_site")

    def __init__(self, site: Site, fire: FireContext) -> None:
        self._site = site
        self._fire = fire
        saved = site.begun.checkpoint
        self._checkpoint = MappingProxyType(decode(saved) if saved else {})

    @property
    def key(self) -> str:
        return self._site.job_id

    @property
    def attempt(self) -> int:
        return self._site.begun.attempt

    @property
    def last_error(self) -> str | None:
        return self._site.begun.last_error

    @property
    def schedule(self) -> str | None:
        return self._fire.schedule

    @property
    def kind(self) -> str:
        return self._fire.kind

    @property
    def nominal(self) -> float | None:
        return _seconds(self._fire.nominal)

    @property
    def deadline(self) -> float | None:
        return _seconds(self._fire.deadline)

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        return self._checkpoint

    def save_checkpoint(self, **progress: Any) -> None:
        """Replace what was saved before, all of it in one step. Raises PayloadError for what can't be kept, StoreError.

        killed before this, or in it before Redis has it    the next attempt finds what was saved before
        killed in it when Redis has it, or after it         the next attempt finds this
        Redis gone                                          StoreError; the next attempt finds the one or the other

        What was done since the last save is done again. Kept as long as once-marks, and over a requeue by hand.
        """
        self._site.runs.save_checkpoint(self.key, progress, self._site.memory_seconds)
        self._checkpoint = MappingProxyType(progress)

    def once(self, mark: str, on_doubt: OnDoubt = "raise") -> AbstractContextManager[bool]:
        """See `worker.once`."""
        return once(self._site, mark, on_doubt)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1000
