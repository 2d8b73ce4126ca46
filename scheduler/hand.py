"""Plans in hand: made ahead of their due time, so that when it comes they only have to be committed.

A plan in hand is never wrong, only out of date: the commit compares revision, status and cursor, and refuses what was
made from others. So nobody has to tell the hand of a pause, a change or a removal; what it misses is found in the
timetable when it is due. Here a plan is let go in time: it was made for its due time, and is not used where it would
have come out differently at the moment of its commit.
"""

from __future__ import annotations

import heapq
from itertools import count

from scheduler.planner import Fire
from scheduler.ports import DueRow, Planned


class Hand:
    """Plans by due time; at most one for each schedule."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Planned]] = []
        self._cursors: dict[str, int] = {}
        self._number = count()

    def __len__(self) -> int:
        return len(self._heap)

    @property
    def head(self) -> int | None:
        """The earliest due time, ms."""
        return self._heap[0][0] if self._heap else None

    def holds(self, row: DueRow) -> bool:
        """Whether there is a plan for this schedule from where it is decided up to."""
        return self._cursors.get(row.id) == row.cursor

    def add(self, planned: Planned) -> None:
        """Keep a plan until it is due."""
        (fire,) = planned.plan.decisions
        heapq.heappush(self._heap, (fire.due, next(self._number), planned))
        self._cursors[planned.plan.schedule_id] = planned.plan.base

    def take(self, now: int, most: int) -> list[Planned]:
        """Those that are due, at most `most`; what has come too late to be used is dropped on the way."""
        taken: list[Planned] = []
        while self._heap and self._heap[0][0] <= now and len(taken) < most:
            _, _, planned = heapq.heappop(self._heap)
            self._cursors.pop(planned.plan.schedule_id, None)
            if now < usable_until(planned):
                taken.append(planned)
        return taken

    def clear(self) -> None:
        """Drop all."""
        self._heap.clear()
        self._cursors.clear()


def is_for_the_hand(planned: Planned, due: int) -> bool:
    """Whether a plan is one fire and nothing else, the one shape that is kept, and due when the timetable has it.

    A schedule that was set aside, or is held by a full queue, stands there later than its fires are due.
    """
    decisions = planned.plan.decisions
    return len(decisions) == 1 and isinstance(decisions[0], Fire) and decisions[0].due == due


def usable_until(planned: Planned) -> int:
    """Before which instant (ms) planning anew would come to the same."""
    (fire,) = planned.plan.decisions
    policy = planned.schedule.policy
    ends = [fire.due + policy.misfire_grace + 1, fire.due + policy.catchup_window + 1]
    if planned.plan.due is not None:
        ends.append(planned.plan.due)
    if policy.expires_in is not None:
        ends.append(fire.nominal + policy.expires_in + 1)
    return min(ends)
