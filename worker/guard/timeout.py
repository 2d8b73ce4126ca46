"""How a run's time-out ends it: an exception first, and a kill for a run that swallows it."""

from __future__ import annotations

import logging
import os
import signal
from types import FrameType

from rq.timeouts import JobTimeoutException, UnixSignalDeathPenalty

from worker.site import RunOverError

GRACE_SECONDS = 5

log = logging.getLogger("rqbeat.worker")


class RunTimeoutError(JobTimeoutException, RunOverError):
    """A run lasted longer than its job's `timeout`. A TimeoutError too, so that a retry rule can name that."""


class RunTimeout(UnixSignalDeathPenalty):
    """RQ's alarm, with a second one behind it.

    RQ raises once; a broad `except` in the job swallows that, and the job holds its worker until RQ's parent kills it
    a minute later. Here the process group of the run is killed `GRACE_SECONDS` after the exception. RQ uses the same
    class for its parent's waits: those keep RQ's meaning.
    """

    def setup_death_penalty(self) -> None:
        self._raised = False
        if self._exception is JobTimeoutException:
            self._exception = RunTimeoutError
        super().setup_death_penalty()  # type: ignore[no-untyped-call]

    def handle_death_penalty(self, signum: int, frame: FrameType | None) -> None:
        if self._exception is RunTimeoutError:
            self._kill_if_swallowed()
        super().handle_death_penalty(signum, frame)  # type: ignore[no-untyped-call]

    def _kill_if_swallowed(self) -> None:
        if self._raised:
            log.error("the run swallowed its time-out of %s s: killed", self._timeout)
            os.killpg(0, signal.SIGKILL)
        self._raised = True
        signal.alarm(GRACE_SECONDS)
