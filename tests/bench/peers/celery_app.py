"""A Celery app as its guide to periodic tasks shows it; `relative` puts the fires of an interval on whole seconds."""

from __future__ import annotations

import base64
import json
import os
from datetime import timedelta
from typing import Any

KEY = "celery"
GROWS = "left"
ENDS = False
FORMS = ("same",)


def schedule_of(entry: bytes) -> int:
    """The number of the schedule that made an entry of the queue."""
    body = json.loads(base64.b64decode(json.loads(entry)["body"]))
    return int(body[0][0])


def make(url: str, count: int) -> Any:
    from celery import Celery
    from celery.schedules import schedule

    app = Celery("peers", broker=redis_url(url))
    app.conf.redbeat_redis_url = url
    app.conf.task_ignore_result = True
    app.conf.beat_schedule = {
        f"s{number}": {
            "task": "task.nothing",
            "schedule": schedule(timedelta(seconds=1), relative=True),
            "args": (number,),
        }
        for number in range(count)
    }
    return app


def redis_url(url: str) -> str:
    """Celery spells the URL of a unix socket in its own way."""
    return url.replace("unix://", "redis+socket://") if url.startswith("unix://") else url


def beat(url: str, count: int, *scheduler: str) -> None:
    app = make(url, count)
    schedule_file = f"{os.environ['RQBENCH_FOLDER']}/celerybeat"
    app.start(["beat", "--loglevel", "ERROR", "--schedule", schedule_file, "--pidfile", "", *scheduler])
