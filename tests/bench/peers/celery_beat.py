"""Celery beat with its own scheduler."""

from __future__ import annotations

import sys

from celery_app import ENDS, FORMS, GROWS, KEY, beat, schedule_of

__all__ = ["ENDS", "FORMS", "GROWS", "KEY", "LABEL", "NEEDS", "schedule_of"]

LABEL = "Celery beat"
NEEDS = ("celery", "redis")

if __name__ == "__main__":
    beat(sys.argv[1], int(sys.argv[2]))
