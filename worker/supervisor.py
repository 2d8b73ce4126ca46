"""Several worker processes under one: started, signalled, restarted and waited for together.

A signal sets a flag; the loop does the rest. Knows nothing of Redis or RQ: what a child does is a function handed in.

    first SIGTERM or SIGINT     passed on: every child stops warm
    second                      passed on: every child stops cold
    a child ends with 0         its slot is done (warm stop, burst, max jobs)
    a child ends otherwise      started again, later each time; with 2 (settings) all stop
    this process is killed      its children are killed with it
    a child is killed           what its run had started is killed too
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from types import FrameType

from shared.clock import Clock
from shared.orphans import adopt_orphans, children, end_children
from shared.process import die_with_parent

LOOK_SECONDS = 0.1
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 30.0
LONG_LIFE = 60.0

log = logging.getLogger("rqbeat.worker")


class Supervisor:
    """Keeps one child per slot. `work` is what a child does with its slot; it returns the child's exit code."""

    def __init__(self, slots: Sequence[str], work: Callable[[str], int], clock: Clock) -> None:
        self._work = work
        self._clock = clock
        self._children: dict[int, tuple[str, float]] = {}
        self._due: list[tuple[float, float, str]] = [(0.0, FIRST_PAUSE, slot) for slot in slots]
        self._pauses: dict[int, float] = {}
        self._not_ours: frozenset[int] = frozenset()
        self._signals = 0
        self._passed_on = 0
        self._code = 0

    def run(self) -> int:
        """Blocks until every slot is done; 0 when all ended well."""
        for sig in (signal.SIGTERM, signal.SIGINT):
            signal.signal(sig, self._note)
        adopt_orphans()
        self._not_ours = children()
        while self._children or self._due:
            self._pass_on()
            self._start_due()
            self._reap()
            self._clock.sleep(LOOK_SECONDS)
        return self._code

    def _note(self, _signum: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _pass_on(self) -> None:
        if self._passed_on < self._signals:
            self._passed_on += 1
            self._due.clear()
            for pid in self._children:
                os.kill(pid, signal.SIGTERM)

    def _start_due(self) -> None:
        now = self._clock.monotonic()
        for entry in [entry for entry in self._due if entry[0] <= now]:
            self._due.remove(entry)
            _, pause, slot = entry
            pid = self._fork(slot)
            self._children[pid], self._pauses[pid] = (slot, now), pause

    def _fork(self, slot: str) -> int:
        parent = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            os.setsid()  # a terminal's Ctrl-C is for the supervisor, which passes it on once
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            die_with_parent(parent)
            code = self._work(slot)
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1
        except Exception:
            log.exception("a worker of %s failed", slot)
        finally:
            sys.stderr.flush()
            os._exit(code)

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in self._children:
                self._ended(pid, os.waitstatus_to_exitcode(status))

    def _ended(self, pid: int, code: int) -> None:
        slot, since = self._children.pop(pid)
        end_children(but=self._not_ours | self._children.keys())
        pause = self._pauses.pop(pid)
        if code == 0 or (self._signals and code == -signal.SIGTERM):
            return
        if self._signals:
            self._code = self._code or 1
        elif code == 2:
            self._code, self._signals = 2, 1
        else:
            self._restart(slot, code, pause, self._clock.monotonic() - since)

    def _restart(self, slot: str, code: int, pause: float, life: float) -> None:
        pause = FIRST_PAUSE if life > LONG_LIFE else pause
        log.error("a worker of %s ended with %d after %.0f s: another starts in %.0f s", slot, code, life, pause)
        self._due.append((self._clock.monotonic() + pause, min(pause * 2, LONGEST_PAUSE), slot))
