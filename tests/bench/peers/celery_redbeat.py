"""Celery beat with redbeat, which keeps its schedules in Redis."""

from __future__ import annotations

import sys

from celery_app import ENDS, FORMS, GROWS, KEY, beat, schedule_of

__all__ = ["ENDS", "FORMS", "GROWS", "KEY", "LABEL", "NEEDS", "schedule_of"]

LABEL = "redbeat"
NEEDS = ("celery", "celery-redbeat")

if __name__ == "__main__":
    beat(sys.argv[1], int(sys.argv[2]), "--scheduler", "redbeat.RedBeatScheduler")
