"""One process with a beat in it: the real `Beat`, `Leader` and `ClockCheck`, driven turn by turn.

`Beat.run` blocks in one place, where it waits on its bell. Here the bell leaves the loop instead, by an exception that
nothing catches but this module, and the loop is entered again when the wait is over. A crash leaves it too; what comes
after a crash is a new beat, with nothing in its memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

from scheduler.beat import Beat
from scheduler.clockcheck import ClockCheck
from scheduler.leader import Leader
from scheduler.ports import Committed, Planned, Released
from tests.simulation.adversary import Adversary, Crash
from tests.simulation.wire import Wire
from tests.simulation.world import Hand, World

State = Literal["down", "waiting", "frozen", "busy"]


class Asleep(BaseException):
    """The beat would wait now."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.ms = max(1, math.ceil(seconds * 1000))


class Bell:
    """What a beat waits on."""

    def __init__(self) -> None:
        self._has_rung = False

    def ring(self) -> None:
        self._has_rung = True

    def wait(self, seconds: float) -> bool:
        if not self._has_rung:
            raise Asleep(seconds)
        self._has_rung = False
        return True


class Watcher:
    """What the beat tells of itself goes into the history."""

    def __init__(self, world: World, who: str) -> None:
        self._world = world
        self._who = who
        self._state = ""

    def committed(self, batch: Sequence[Planned], committed: Committed) -> None:
        for index, planned in enumerate(batch):
            code = committed.result(index).code
            self._world.say(self._who, code, f"{planned.plan.schedule_id} to {planned.plan.cursor}")

    def set_aside(self, schedule_id: str, error: str) -> None:
        self._world.say(self._who, "set aside", f"{schedule_id}: {error}")

    def released(self, released: Released) -> None:
        self._world.say(self._who, "sent on", f"{released.schedule} {released.nominal} {released.outcome}")

    def state(self, facts: dict[str, str | int]) -> None:
        if facts["state"] != self._state:
            self._state = str(facts["state"])
            self._world.say(self._who, self._state)


class Process:
    """A beat that is restarted when it ended, however it ended. `connect` gives it its line to the store."""

    def __init__(self, name: str, world: World, adversary: Adversary, connect: Callable[[str], Wire]) -> None:
        self.name = name
        self.clock = Hand(world)
        self.turns = self.busiest = 0
        self._turns_in = (0, 0)
        self._world = world
        self._adversary = adversary
        self._wire = connect(name)
        self._starts = 0
        self._alarm = 0
        self._state: State = "down"

    def start(self) -> None:
        """Begin anew, under another name: a process that was restarted is not the one before."""
        self._starts += 1
        self._bell = Bell()
        check = ClockCheck(self.clock)
        leader = Leader(self._wire.leases, f"{self.name}#{self._starts}", self.clock, may_lead=check.agrees)
        self.beat = Beat(
            timetable=self._wire.timetable,
            leader=leader,
            clock=self.clock,
            bell=self._bell,  # type: ignore[arg-type]
            observer=Watcher(self._world, self.name),
            reached=lambda point: self._adversary.reached(self.name, point),
        )
        self._go_on()

    def ring(self) -> None:
        """Wake it, if it waits."""
        self._bell.ring()
        if self._state == "waiting":
            self._set_alarm(0, self._go_on)

    def freeze(self, ms: int) -> None:
        """Let it stand still where it waits, whatever rings."""
        if self._state == "waiting":
            self._state = "frozen"
            self._set_alarm(ms, self._go_on)

    def kill(self) -> None:
        """End it where it waits or stands still; it comes back."""
        if self._state in {"waiting", "frozen"}:
            self._world.say(self.name, "killed")
            self._restart()

    def stop(self) -> None:
        """End it gently, as soon as it can: it gives the lease back."""
        self.beat.stop()
        self.ring()

    def _restart(self) -> None:
        self._state = "down"
        self._set_alarm(self._world.rng.randrange(1, 4000), self.start)

    def _set_alarm(self, ms: int, act: Callable[[], None]) -> None:
        """The latest alarm counts."""
        self._alarm = mine = self._alarm + 1
        self._world.after(ms, lambda: act() if self._alarm == mine else None)

    def _go_on(self) -> None:
        """Run the loop until it waits or ends."""
        self._count_turn()
        self._state = "busy"
        try:
            self.beat.run()
        except Asleep as nap:
            self._state = "waiting"
            return self._set_alarm(nap.ms, self._go_on)
        except Crash:
            self._world.say(self.name, "crashed")
        return self._restart()

    def _count_turn(self) -> None:
        """A loop that does not rest is a fault too: it would take a thousand turns a second here."""
        self.turns += 1
        second = self._world.now // 1000
        self._turns_in = (second, self._turns_in[1] + 1 if self._turns_in[0] == second else 1)
        self.busiest = max(self.busiest, self._turns_in[1])
