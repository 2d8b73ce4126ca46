"""What the parent and the child of a pool tell each other: a page of shared memory, no Redis, no locks, no waiting.

The child's note is written into one of two places and then made the valid one by a single byte: a child killed in
between leaves the note before it. Knows nothing of jobs but their ids.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from enum import IntEnum


class Phase(IntEnum):
    """What the child is at. In all of them it may have asked for another job, under `asked`."""

    IDLE = 0
    """It has no job, and waits for one or asks for one."""
    HOLDING = 1
    """It has a job, popped or claimed, whose handler was not called yet."""
    RUNNING = 2
    ENDING = 3
    """The handler has returned or raised; the end may have been written or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """`job_id` and `token` name the run, `asked` the one asked for. `started` is monotonic seconds, `wall` epoch ms.

    An idle child has `started` to wait then; it does so anew every second, so that one that hangs can be told.
    """

    phase: Phase = Phase.IDLE
    job_id: str = ""
    token: str = ""
    asked: str = ""
    started: float = 0.0
    wall: int = 0
    timeout: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """Since the board was made: runs that ended, those that the child counts for RQ, and how long these took."""

    runs: int = 0
    successes: int = 0
    seconds: float = 0.0


_NOTE = struct.Struct("=BdqI32s32sH500s")
_SCORE = struct.Struct("=IId")
_VALID, _STOP = 0, 1
_NOTES, _SCORES = 16, 16 + 2 * _NOTE.size


class Board:
    """Made by the parent before it forks; the same board serves one child after the other."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _SCORES + 2 * _SCORE.size)

    # The child writes, the parent reads.

    def write(self, note: Note) -> None:
        """Make this the note."""
        name = note.job_id.encode()
        packed = _NOTE.pack(
            *(note.phase, note.started, note.wall, note.timeout),
            *(note.token.encode(), note.asked.encode(), len(name), name),
        )
        other = 1 - (self._page[_VALID] & 1)
        self._page[_place(_NOTES, other, _NOTE) : _place(_NOTES, other + 1, _NOTE)] = packed
        self._page[_VALID] = (self._page[_VALID] & 2) | other

    def read(self) -> Note:
        """The note that is valid now; the child may be on to the next when this returns."""
        while True:
            place = self._page[_VALID] & 1
            fields = _NOTE.unpack_from(self._page, _place(_NOTES, place, _NOTE))
            if self._page[_VALID] & 1 == place and fields == _NOTE.unpack_from(
                self._page, _place(_NOTES, place, _NOTE)
            ):
                break
        phase, started, wall, timeout, token, asked, length, name = fields
        return Note(
            phase=Phase(phase),
            job_id=name[:length].decode(errors="replace"),
            token=token.rstrip(b"\0").decode(),
            asked=asked.rstrip(b"\0").decode(),
            started=started,
            wall=wall,
            timeout=timeout,
        )

    def count(self, *, success: bool, seconds: float = 0.0) -> None:
        """Count a run that ended."""
        held = self.score()
        other = 1 - (self._page[_VALID] >> 1)
        score = (held.runs + 1, held.successes + success, held.seconds + seconds)
        _SCORE.pack_into(self._page, _place(_SCORES, other, _SCORE), *score)
        self._page[_VALID] = (self._page[_VALID] & 1) | (other << 1)

    def score(self) -> Score:
        """What was counted so far."""
        return Score(*_SCORE.unpack_from(self._page, _place(_SCORES, self._page[_VALID] >> 1, _SCORE)))

    # The parent writes, the child reads.

    def ask_to_leave(self, *, leave: bool = True) -> None:
        """Have the child leave after the job it is at, or take that back before another is started."""
        self._page[_STOP] = leave

    @property
    def is_to_leave(self) -> bool:
        return bool(self._page[_STOP])


def _place(base: int, index: int, shape: struct.Struct) -> int:
    return base + index * shape.size
