"""Typed jobs under test: what they were handed is told by their results and by effects."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

from bench_jobs import effect

from shared import Job, Retry

scheduler = object()


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Line:
    article: str
    price: Decimal
    colour: Colour = Colour.RED


@dataclass(frozen=True)
class Order:
    lines: list[Line]
    at: datetime | None = None


@dataclass
class Unset:
    """One of its fields has no value."""

    total: int = field(init=False)


class Total(Job):
    name = "total"

    def handle(self, orders: dict[str, Order], colours: set[Colour]) -> Decimal:
        found = [line for order in orders.values() for line in order.lines if line.colour in colours]
        return sum((line.price for line in found), Decimal(0))


class Echo(Job):
    name = "echo"
    retry = Retry(max=2)

    def handle(self, order: Order, colour: Colour = Colour.RED) -> dict[str, object]:
        effect("echo", self.ctx.key)
        assert isinstance(order, Order)
        return {"order": order, "colour": [colour]}


class Endless(Job):
    name = "endless"
    retry = Retry(max=2)

    def handle(self, what: str) -> object:
        effect(f"endless-{what}")
        if what == "error":
            raise ValueError("x" * 50_000_000)
        if what == "unset":
            return Unset()
        return {"bytes": b"x" * 50_000_000, "generator": (n for n in range(3)), "items": [[]] * 200_000}[what]
