"""What a running job may ask of its surroundings: `self.ctx`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

OnDoubt = Literal["raise", "skip", "repeat"]


class JobContext(Protocol):
    """The fire and the run that a job is part of. Instants are epoch seconds, UTC."""

    @property
    def key(self) -> str:
        """The same text on every attempt of this job, and on no other job: the key to hand to a payment or mail API."""
        ...

    @property
    def attempt(self) -> int:
        """1 on the first run, 2 on the first retry …"""
        ...

    @property
    def schedule(self) -> str | None:
        """The id of the schedule that fired, None for a dispatched job."""
        ...

    @property
    def nominal(self) -> float | None:
        """The instant that names the fire, None for a dispatched job."""
        ...

    @property
    def deadline(self) -> float | None:
        """The instant after which this job may not start, None where there is none."""
        ...

    @property
    def kind(self) -> str:
        """scheduled, catchup, manual, backfill or dispatch."""
        ...

    @property
    def last_error(self) -> str | None:
        """The last line of the error that ended the attempt before, None on the first."""
        ...

    @property
    def checkpoint(self) -> Mapping[str, Any]:
        """What `save_checkpoint` wrote on an earlier attempt; empty at first."""
        ...

    def save_checkpoint(self, **progress: Any) -> None:
        """Write down, durably, what the next attempt goes on from. Blocks for one round trip."""
        ...

    def once(self, mark: str, on_doubt: OnDoubt = "raise") -> AbstractContextManager[bool]:
        """A durable marker around one side effect: true inside the block when it is still to be done.

        Entering claims the mark, a normal exit marks it done for all later attempts, an exception releases the claim.
        A process killed inside leaves the mark in doubt: the next attempt raises OnceInDoubtError, or with
        `on_doubt="skip"` takes it as done, with "repeat" as not done.
        """
        ...
