"""What happens beside faults of the line: people change schedules, processes are ended or stand still, clocks move."""

from __future__ import annotations

from collections.abc import Sequence

from tests.simulation.adversary import Adversary
from tests.simulation.people import People
from tests.simulation.process import Process
from tests.simulation.world import Hand, World


class Meddler:
    """Does something about once a second, until the end. Processes are left alone in calm weather."""

    def __init__(
        self, world: World, clock: Hand, people: People, processes: Sequence[Process], adversary: Adversary
    ) -> None:
        self._world = world
        self._clock = clock
        self._people = people
        self._processes = processes
        self._adversary = adversary
        self._is_over = False

    def act(self) -> None:
        """One deed, and the next a while later."""
        if self._is_over:
            return
        deed = self._world.rng.choices((self._change, self._hit, self._skew, self._step), (10, 3, 2, 0.5))[0]
        deed()
        self._world.after(self._world.rng.randrange(50, 1500), self.act)

    def end(self) -> None:
        """No more of it, and right clocks."""
        self._is_over = True
        self._set_clocks()

    def _change(self) -> None:
        """A change of schedules, and the news of it, which not every beat hears."""
        self._people.act()
        for process in self._processes:
            if self._world.rng.random() < 0.7:
                process.ring()

    def _hit(self) -> None:
        process, deed = self._world.rng.choice(self._processes), self._world.rng.choice(("kill", "stop", "freeze"))
        if not self._adversary.rate:
            return
        self._world.say(process.name, f"to {deed}")
        if deed == "freeze":
            process.freeze(self._world.rng.randrange(500, 9000))
        else:
            getattr(process, deed)()

    def _skew(self) -> None:
        """One beat's clock goes off the store's: by less than 5 s mostly, now and then by more."""
        process = self._world.rng.choice(self._processes)
        most = self._world.rng.choice((50, 1000, 4900, 4900, 60_000))
        process.clock.offset = self._clock.offset + self._world.rng.randrange(-most, most)
        self._world.say(process.name, "clock", process.clock.offset - self._clock.offset)

    def _step(self) -> None:
        """The store's clock is stepped; some time later everybody's follows."""
        self._clock.offset += self._world.rng.choice((-20_000, -3000, -200, 200, 3000, 20_000))
        self._world.say("store", "clock step", self._clock.offset)
        self._world.after(self._world.rng.randrange(200, 12_000), self._set_clocks)

    def _set_clocks(self) -> None:
        for process in self._processes:
            process.clock.offset = self._clock.offset
