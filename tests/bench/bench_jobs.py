"""Jobs that do nothing, for benchmarks: a worker would import them from here."""

from __future__ import annotations

import time
from dataclasses import dataclass

from shared import Job


class Nothing(Job):
    name = "bench-nothing"

    def handle(self, number: int) -> None: ...


@dataclass(frozen=True)
class Number:
    value: int


class Typed(Job):
    name = "bench-typed"

    def handle(self, number: Number) -> None: ...


def nothing(number: int) -> None: ...


class Now(Job):
    name = "bench-now"

    def handle(self) -> float:
        return time.time()
