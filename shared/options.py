"""How RQ is to handle one job: queue, time-out, how long its record is kept. Checked once, where a person wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from shared.errors import ConfigurationError
from shared.instants import duration_ms

DAY = 86_400
LEAST_RESULT_TTL = 10
MAX_TIMEOUT = 365 * DAY  # an alarm of more seconds overflows on some platforms


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Whole seconds throughout, as RQ stores them."""

    queue: str = "default"
    timeout: int = 180
    result_ttl: int = 500
    failure_ttl: int = 7 * DAY
    at_front: bool = False


def check_queue(name: object) -> str:
    """The name itself, when it may name a queue: 1 to 100 printable characters that collide with no key of RQ's."""
    if not isinstance(name, str) or not 1 <= len(name) <= 100 or not name.isprintable() or name != name.strip():
        raise ConfigurationError(f"queue: a name of 1 to 100 printable characters, got {name!r:.120}")
    if ":" in name:
        raise ConfigurationError(f"queue: RQ builds its keys with ':', so no queue may hold one, got {name!r}")
    return name


def check_timeout(value: float | timedelta) -> int:
    """A time-out in whole seconds, from one second to a year."""
    return _whole_seconds(value, "timeout", 1, MAX_TIMEOUT)


def check_ttl(value: float | timedelta, what: str) -> int:
    """How long a record is kept, in whole seconds, up to ten years: that of a run which returned at least 10 s.

    A dispatch whose reply was lost is sent again, and finds by its record that the job was sent already.
    """
    seconds = _whole_seconds(value, what, 0, 10 * 365 * DAY)
    if what == "result_ttl" and seconds < LEAST_RESULT_TTL:
        raise ConfigurationError(
            f"{what}: at least {LEAST_RESULT_TTL} s, got {value!r}: a dispatch whose reply was lost is sent again, "
            "and would run a job twice whose record is gone by then"
        )
    return seconds


def _whole_seconds(value: float | timedelta, what: str, least: int, most: int) -> int:
    ms = duration_ms(value, what)
    if ms % 1000 or not least <= ms // 1000 <= most:
        raise ConfigurationError(f"{what}: whole seconds from {least} to {most}, got {value!r}")
    return ms // 1000
