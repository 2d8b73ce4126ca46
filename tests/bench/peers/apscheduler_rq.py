"""APScheduler 3, its jobs enqueueing to RQ, as its user guide has it: a blocking scheduler, its default pool of ten.

Its jobs are kept in memory, its default store, which is its fastest.
"""

from __future__ import annotations

import sys

LABEL = "APScheduler + RQ"
NEEDS = ("APScheduler", "rq")
KEY = "rq:queue:default"
GROWS = "right"
ENDS = True
FORMS = ("spread", "same")


def schedule_of(entry: bytes) -> int:
    """The number of the schedule that made an entry of the queue."""
    return int(entry.partition(b"-")[0])


def run(url: str, count: int, first: int, step: int, seconds: int) -> None:
    import logging
    from datetime import UTC, datetime, timedelta
    from uuid import uuid4

    from apscheduler.schedulers.blocking import BlockingScheduler
    from redis import Redis
    from rq import Queue
    from task import nothing

    logging.basicConfig(level=logging.ERROR)
    queue = Queue(connection=Redis.from_url(url))
    scheduler = BlockingScheduler(timezone=UTC)

    def enqueue(number: int) -> None:
        queue.enqueue(nothing, number, job_id=f"{number}-{uuid4()}")

    for number in range(count):
        start = datetime.fromtimestamp((first + number * step) / 1000, UTC)
        end = start + timedelta(seconds=seconds - 0.5)
        scheduler.add_job(enqueue, "interval", seconds=1, start_date=start, end_date=end, args=[number])
    scheduler.start()


if __name__ == "__main__":
    run(sys.argv[1], *map(int, sys.argv[2:]))
