"""taskiq with its scheduler, interval labels and a list in Redis as its broker. It looks at whole seconds."""

from __future__ import annotations

import json
import sys

LABEL = "taskiq"
NEEDS = ("taskiq", "taskiq-redis")
KEY = "taskiq"
GROWS = "left"
ENDS = False
FORMS = ("same",)


def schedule_of(entry: bytes) -> int:
    """The number of the schedule that made an entry of the queue."""
    return int(json.loads(entry)["args"][0])


def run(url: str, count: int) -> None:
    import asyncio

    from taskiq import TaskiqScheduler
    from taskiq.cli.scheduler.run import SchedulerLoop
    from taskiq.schedule_sources import LabelScheduleSource
    from taskiq_redis import ListQueueBroker

    broker = ListQueueBroker(url)

    @broker.task(schedule=[{"interval": 1, "args": [number]} for number in range(count)])
    async def nothing(number: int) -> None: ...

    scheduler = TaskiqScheduler(broker, [LabelScheduleSource(broker)])

    async def main() -> None:
        broker.is_scheduler_process = True
        await scheduler.startup()
        for source in scheduler.sources:
            await source.startup()
        await SchedulerLoop(scheduler).run()

    asyncio.run(main())


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]))
