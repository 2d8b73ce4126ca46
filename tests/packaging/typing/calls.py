"""Right and wrong calls, for type checkers: never run. Each wrong one has to be found, or its ignore is unused."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from scheduler import CronTrigger, SchedulerManager
from shared import Job
from shared.job import JobHandle


@dataclass(frozen=True)
class Order:
    number: int


class Send(Job):
    queue = "mail"

    def handle(self, order: Order, copy_to: str | None = None, *, urgent: bool = False) -> str:
        return "sent"


class Fetch(Job):
    async def handle(self, url: str) -> int:
        return 200


scheduler = SchedulerManager()


@scheduler.every(10)
def look(room: int, *, door: str = "") -> bool:
    return True


@scheduler.cron("0 6 * * *", timezone="Europe/Paris")
async def listen(room: int) -> bytes:
    return b""


@scheduler.every(60)
class Sweep(Job):
    def handle(self, room: int = 1) -> None: ...


def hum(tune: str) -> str:
    return tune


hummed = scheduler.schedule(hum, CronTrigger("0 9 * * *"), args=["la"])
sent = scheduler.schedule(Send, CronTrigger("0 9 * * *"), id="send", args=[Order(1)])

# Right.

assert_type(Send.dispatch(Order(1)), JobHandle)
assert_type(Send.dispatch(Order(1), "a@example.org", urgent=True), JobHandle)
assert_type(Send.options(delay=5).dispatch(order=Order(1), copy_to=None), JobHandle)
assert_type(Send.dispatch_many([Send.arguments(Order(1)), ((Order(2),), {"urgent": True})]), list[JobHandle])
assert_type(Send.options(queue="x").dispatch_many(Send.arguments(Order(n)) for n in range(3)), list[JobHandle])
assert_type(Fetch.dispatch("a"), JobHandle)
assert_type(look(1, door="north"), bool)
assert_type(look.dispatch(1, door="north"), JobHandle)
assert_type(Sweep.dispatch(), JobHandle)
assert_type(hummed("la"), str)
assert_type(sent.dispatch(Order(1), urgent=True), JobHandle)


async def right() -> None:
    assert_type(await Send.adispatch(Order(1), urgent=True), JobHandle)
    assert_type(await Send.options(timeout=5).adispatch(Order(1)), JobHandle)
    assert_type(await Fetch.adispatch(url="a"), JobHandle)
    assert_type(await Fetch.dispatch("a"), JobHandle)
    assert_type(await listen(1), bytes)
    assert_type(await listen.adispatch(1), JobHandle)


# Wrong.

Send.dispatch()  # type: ignore[call-arg]
Send.dispatch("1")  # type: ignore[arg-type]
Send.dispatch(Order(1), 5)  # type: ignore[arg-type]
Send.dispatch(Order(1), None, True)  # type: ignore[call-arg]
Send.dispatch(Order(1), urgnt=True)  # type: ignore[call-arg]
Send.options(delay=5).dispatch(1)  # type: ignore[arg-type]
Send.options(dely=5)  # type: ignore[call-arg]
Send.arguments("1")  # type: ignore[arg-type]
Send.dispatch_many([Order(1)])  # type: ignore[list-item]
Fetch.dispatch(1)  # type: ignore[arg-type]
look("kitchen")  # type: ignore[arg-type]
look.dispatch(room="kitchen")  # type: ignore[arg-type]
Sweep.dispatch("kitchen")  # type: ignore[arg-type]
hummed.dispatch(1)  # type: ignore[arg-type]
sent.dispatch(1)  # type: ignore[arg-type]


async def wrong() -> None:
    await Send.adispatch(1)  # type: ignore[arg-type]
    await Send.options(delay=5).adispatch()  # type: ignore[call-arg]
    await listen.adispatch("kitchen")  # type: ignore[arg-type]
    await listen()  # type: ignore[call-arg]
