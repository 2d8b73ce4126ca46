"""Identity: which ids a schedule may have, and the job id that follows from a fire.

RQ takes letters, digits, `_` and `-` in a job id and nothing else, so a schedule's id is carried as a readable slug
plus a digest: distinct schedules never share a job id, whatever characters their ids hold.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Literal

from shared.errors import ConfigurationError

Kind = Literal["scheduled", "catchup", "manual", "backfill", "dispatch"]

_OUTSIDE_SLUG = re.compile(r"[^A-Za-z0-9_-]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_REQUEST_MARK = {"manual": "-m", "backfill": "-b"}


def check_schedule_id(schedule_id: object) -> str:
    """The id itself. Raises ConfigurationError unless it has 1 to 200 characters, no control, no lone surrogate."""
    if not isinstance(schedule_id, str) or not 1 <= len(schedule_id) <= 200:
        raise ConfigurationError(f"a schedule's id has 1 to 200 characters, got {schedule_id!r:.80}")
    if _CONTROL.search(schedule_id):
        raise ConfigurationError(f"a schedule's id has no control characters, got {schedule_id!r}")
    if _SURROGATE.search(schedule_id):
        raise ConfigurationError(f"a schedule's id is Unicode text, without lone surrogates, got {schedule_id!r:.80}")
    return schedule_id


@lru_cache(20_000)
def job_stem(schedule_id: str) -> str:
    """What every job id of a schedule starts with: a slug of at most 40 characters, `-`, 16 hex digits of SHA-256."""
    slug = _OUTSIDE_SLUG.sub("-", schedule_id)[:40]
    return f"{slug}-{hashlib.sha256(schedule_id.encode()).hexdigest()[:16]}"


def fire_job_id(schedule_id: str, nominal_ms: int, kind: Kind = "scheduled", request: str = "") -> str:
    """The id of the job of one fire.

    Scheduled and catch-up fires of one nominal time share one id: that is what makes a second push recognisable.
    Manual and backfill fires add `-m` or `-b` and the id of the request.
    """
    mark = _REQUEST_MARK.get(kind)
    return f"{job_stem(schedule_id)}-{nominal_ms}" + (f"{mark}{request}" if mark else "")
