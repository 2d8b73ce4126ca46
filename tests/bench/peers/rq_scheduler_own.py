"""rq-scheduler: periodic jobs of one second, and its scheduler looking ten times a second.

It keeps whole seconds, so its fires are due at whole seconds.
"""

from __future__ import annotations

import sys

LABEL = "rq-scheduler"
NEEDS = ("rq-scheduler", "rq")
KEY = "rq:queue:default"
GROWS = "right"
ENDS = True
FORMS = ("same",)


def schedule_of(entry: bytes) -> int:
    """The number of the schedule that made an entry of the queue."""
    return int(entry)


def run(url: str, count: int, first: int, step: int, seconds: int) -> None:
    from datetime import UTC, datetime

    from redis import Redis
    from rq_scheduler import Scheduler
    from task import nothing

    scheduler = Scheduler(connection=Redis.from_url(url), interval=0.1)
    for number in range(count):
        start = datetime.fromtimestamp((first + number * step) / 1000, UTC).replace(tzinfo=None)
        scheduler.schedule(start, nothing, args=[number], interval=1, repeat=seconds, id=str(number))
    scheduler.run()


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
