"""RQ's `Worker` when it is told to stop, or to stop a run of its child.

A kill must hit the run that was meant, and the child goes on by itself. So it is frozen first, then the board is read,
then it is killed or thawed.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from types import FrameType

from worker.guard.loop import STOP_SECONDS
from worker.pool.board import Board, Note, Phase
from worker.pool.held import HeldGuard

FREEZE_SECONDS = 1.0


class StopGuard(HeldGuard):
    """Stops and kills."""

    _board: Board

    def request_stop(self, signum: int, frame: FrameType | None) -> None:  # noqa: ARG002 - a signal handler
        """The child leaves after its job. One that waits for a Redis that hangs is left alone, and ends with this."""
        self._stop_requested = True
        self._stop_asked_at = self.clock.monotonic()
        self._board.ask_to_leave()
        signal.signal(signal.SIGALRM, self._leave_if_idle)
        signal.alarm(STOP_SECONDS)
        for sig in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sig, self.request_force_stop)

    def _leave_if_idle(self, _signum: int, _frame: FrameType | None) -> None:
        if self._board.read().phase == Phase.IDLE:
            os._exit(0)

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """RQ calls this to stop a job, whose id it has noted by then, and to kill whatever runs."""
        if self._stopped_job_id is None:
            super().kill_horse(sig)
        elif not self._kill_run(self._stopped_job_id):
            self._stopped_job_id = None

    def get_current_job_id(self) -> str | None:
        note = self._board.read()
        return note.job_id if note.phase == Phase.RUNNING else None

    def request_stop_execution(self, execution_id: str) -> None:
        note = self._board.read()
        if note.phase == Phase.RUNNING and note.token == execution_id:
            self._stopped_job_id = note.job_id
            self.kill_horse()

    def _kill_run(self, job_id: str) -> bool:
        """Kill the child if it is in a run of this job, and in no other."""
        return self._kill_if(lambda note: note.phase == Phase.RUNNING and note.job_id == job_id)

    def _kill_if(self, is_meant: Callable[[Note], bool]) -> bool:
        """Kill the child if what it is at is what was meant."""
        pid = self._horse_pid
        if not pid or not self._freeze(pid):
            return False
        kills = is_meant(self._board.read())
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL if kills else signal.SIGCONT)
        return kills

    def _freeze(self, pid: int) -> bool:
        """Whether the child stands still now. It is thawed or killed by the caller."""
        ends = self.clock.monotonic() + FREEZE_SECONDS
        try:
            os.kill(pid, signal.SIGSTOP)
            while os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is None:
                if self.clock.monotonic() > ends:
                    os.kill(pid, signal.SIGCONT)
                    return False
                self.clock.sleep(0.001)
        except (ProcessLookupError, ChildProcessError):
            return False
        return True
