"""`rqbeat …` that is frozen between planning and committing: it stops itself before its tenth commit, until SIGCONT.

The lease is lost meanwhile, so that the commit, which is the product's own, arrives from a leader that is none.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Iterable, Iterator, Sequence

from scheduler import wiring
from scheduler.cli import main
from scheduler.ports import Committed, Lease, Planned
from scheduler.store import RedisTimetable

FREEZES_AT = 10


class Sleepy(RedisTimetable):
    _count = itertools.count(1)

    def commits(
        self, lease: Lease, batches: Iterable[Sequence[Planned]]
    ) -> Iterator[tuple[Sequence[Planned], Committed | None]]:
        return super().commits(lease, map(self._slept, batches))

    def _slept(self, plans: Sequence[Planned]) -> Sequence[Planned]:
        if next(self._count) == FREEZES_AT:
            os.kill(os.getpid(), signal.SIGSTOP)
        return plans


if __name__ == "__main__":
    wiring.RedisTimetable = Sleepy  # type: ignore[misc]
    main(sys.argv[1:])
