"""Jobs that do nothing, for benchmarks: a worker would import them from here."""

from __future__ import annotations

from shared import Job


class Nothing(Job):
    name = "bench-nothing"

    def handle(self, number: int) -> None: ...


def nothing(number: int) -> None: ...
