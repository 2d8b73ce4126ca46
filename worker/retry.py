"""Whether and how late a failed run is tried again. Pure: the rule, the error and the job's id decide, nothing else.

The delay is set at the failure, not when the job is sent, so that the error can have its say (`retry_after`). RQ keeps
due times in whole seconds, so delays are rounded up to them: a retry is never early.
"""

from __future__ import annotations

import hashlib
import math
from datetime import timedelta

from shared.errors import ExpiredError, OnceInDoubtError, RefusedPayloadError, UnknownJobError
from shared.retry import Retry

LONGEST_DELAY = 30 * 86_400
LONGEST_RETRY_AFTER = 86_400

_FINAL = (RefusedPayloadError, UnknownJobError, ExpiredError, OnceInDoubtError)
"""What another attempt can't mend."""


def may_retry(rule: Retry | None, error: BaseException | None) -> bool:
    """Whether a run that ended with `error` is to be tried again, if retries are left.

    None stands for a run that was killed: it is retried whatever the rule's `on` says, since no type tells why.
    """
    if rule is None or isinstance(error, _FINAL):
        return False
    return error is None or rule.covers(type(error))


def delay_seconds(rule: Retry, job_id: str, attempt: int, error: BaseException | None = None) -> int:
    """Whole seconds from the failure of attempt 1, 2 … to the next one.

    The rule's delay, jittered by a hash of job id and attempt; later when the error asks for it by `retry_after`.
    """
    jittered = _delay(rule, attempt) * (1 + rule.jitter * _share(job_id, attempt))
    return min(LONGEST_DELAY, math.ceil(round(max(jittered, retry_after(error)), 3)))


def retry_after(error: BaseException | None) -> float:
    """The seconds that an error asks to wait, by an attribute `retry_after`: a number or a timedelta, at most a day."""
    asked = _asked(error)
    if isinstance(asked, timedelta):
        asked = asked.total_seconds()
    if isinstance(asked, bool) or not isinstance(asked, int | float) or not asked > 0:
        return 0.0
    return float(min(asked, LONGEST_RETRY_AFTER))


def _asked(error: BaseException | None) -> object:
    """None where it can't be read: a property that raises must not hide the error that it belongs to."""
    try:
        return getattr(error, "retry_after", None)
    except Exception:  # noqa: BLE001 - the job's own code
        return None


def attempt_of(rule: Retry, retries_left: int) -> int:
    """Which attempt it was that left so many retries: 1 for the first."""
    return max(1, rule.max - retries_left + 1)


def longest_span(rule: Retry | None, timeout: int) -> int:
    """The most seconds that can pass from a job's first start to the end of its last attempt."""
    if rule is None:
        return timeout
    delays = sum(min(LONGEST_DELAY, math.ceil(_delay(rule, n) * (1 + rule.jitter))) for n in range(1, rule.max + 1))
    return delays + (rule.max + 1) * timeout


def _delay(rule: Retry, attempt: int) -> float:
    try:
        delay = rule.backoff * rule.factor ** (attempt - 1)
    except OverflowError:
        delay = math.inf if rule.backoff else 0.0
    return min(delay, LONGEST_DELAY if rule.cap is None else rule.cap)


def _share(job_id: str, attempt: int) -> float:
    """A number in [0, 1) that is the same on every machine."""
    digest = hashlib.sha256(f"{job_id}:{attempt}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
