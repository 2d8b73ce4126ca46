"""Instants and durations as people write them, to and from the integer milliseconds that everything inside counts in.

Every instant is a whole number of epoch milliseconds, UTC. Naive datetimes are refused: nobody can say which instant
they mean.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from shared.errors import ConfigurationError

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST_MS = 253_402_300_799_999  # the last millisecond of the year 9999


def instant_ms(value: float | datetime, what: str = "an instant") -> int:
    """Epoch milliseconds of an aware datetime or of epoch seconds; fractions of a millisecond are cut off.

    Raises ConfigurationError for naive datetimes, nan, infinities and years outside 1970 … 9999.
    """
    seconds = _seconds_of(value, what)
    if not math.isfinite(seconds) or not 0 <= seconds * 1000 <= LAST_MS:
        raise ConfigurationError(f"{what} must lie between 1970 and the end of 9999, got {value!r}")
    return _whole_ms(value)


def duration_ms(value: float | timedelta, what: str = "a duration") -> int:
    """Whole milliseconds of a duration in seconds or a timedelta. Raises ConfigurationError unless it is 0 or more."""
    if isinstance(value, bool) or not isinstance(value, int | float | timedelta):
        raise ConfigurationError(f"{what} must be seconds or a timedelta, got {value!r}")
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if not math.isfinite(seconds) or not 0 <= seconds <= LAST_MS / 1000:
        raise ConfigurationError(f"{what} must be a finite number of seconds, 0 or more, got {value!r}")
    return round(seconds * 1000)


def parse_instant(text: str, what: str = "an instant") -> int:
    """Epoch milliseconds of ISO 8601 text with a zone (`2026-11-29T08:00:00Z`) or of epoch seconds as digits."""
    try:
        return instant_ms(float(text), what)
    except ValueError:
        pass
    try:
        return instant_ms(datetime.fromisoformat(text), what)
    except ConfigurationError:
        raise
    except ValueError:
        raise ConfigurationError(
            f"{what}: expected ISO 8601 with a zone, such as 2026-11-29T08:00:00Z, got {text!r}"
        ) from None


def iso(ms: int) -> str:
    """ISO 8601 in UTC with `Z`; milliseconds only when they are not zero."""
    moment = utc_datetime(ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S") + (f".{ms % 1000:03d}Z" if ms % 1000 else "Z")


def utc_datetime(ms: int) -> datetime:
    """The aware datetime, in UTC, of epoch milliseconds."""
    return EPOCH + timedelta(milliseconds=ms)


def _seconds_of(value: float | datetime, what: str) -> float:
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ConfigurationError(f"{what} must say its zone: {value!r} is naive; add tzinfo, such as datetime.UTC")
        return value.timestamp()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ConfigurationError(f"{what} must be epoch seconds or an aware datetime, got {value!r}")
    return float(value)


def _whole_ms(value: float | datetime) -> int:
    if isinstance(value, datetime):
        return (value - EPOCH) // timedelta(milliseconds=1)
    # 1.1 s is 1100 ms though 1.1 * 1000 is not: round what a float's noise moved, cut what was really below a ms.
    return math.floor(round(value * 1000, 3))
