"""How long to wait and how much at once: the beat's patience with Redis, with one schedule, and after an outage."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from shared.clock import Clock

CATCH_UP_PER_SECOND = 2000
ASIDE_MS = 60_000


@dataclass(slots=True)
class BackOff:
    """Growing waits: 0.1 s doubled up to `cap`, each cut by up to a half at random, lest beats march in step."""

    cap: float = 5.0
    _tries: int = 0

    def next(self) -> float:
        self._tries += 1
        return min(self.cap, 0.1 * 2.0 ** min(self._tries, 20)) * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def reset(self) -> None:
        self._tries = 0


@dataclass(slots=True)
class Troubles:
    """Schedules set aside, and how often in a row: each time twice as long, up to a minute."""

    _counts: dict[str, int] = field(default_factory=dict)

    def next_ms(self, schedule_id: str) -> int:
        count = self._counts[schedule_id] = self._counts.get(schedule_id, 0) + 1
        return min(ASIDE_MS, 1000 << min(count - 1, 16))

    def forget(self, schedule_id: str) -> None:
        self._counts.pop(schedule_id, None)


class Allowance:
    """How many catch-up jobs may still be enqueued in the second at hand: an outage must not end in a flood."""

    def __init__(self, clock: Clock, per_second: int = CATCH_UP_PER_SECOND) -> None:
        self._clock = clock
        self._per_second = per_second
        self._since = clock.monotonic()
        self._left = per_second

    def left(self) -> int:
        """What is left now; less than nothing when the last batch went over."""
        now = self._clock.monotonic()
        if now - self._since >= 1:
            self._since, self._left = now, self._per_second + min(0, self._left)
        return max(0, self._left)

    def take(self, count: int) -> None:
        self._left -= count

    def seconds_to_next(self) -> float:
        return max(0.0, self._since + 1 - self._clock.monotonic())


class Seldom:
    """A chore that runs at most once in so many seconds, however often it is called; but at the next call again when it
    returned True, for more to do."""

    def __init__(self, chore: Callable[[], object], seconds: float, clock: Clock) -> None:
        self._chore = chore
        self._seconds = seconds
        self._clock = clock
        self._next = clock.monotonic()

    def __call__(self) -> None:
        if self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + self._seconds
            if self._chore() is True:
                self._next = self._clock.monotonic()


class SlowerClock:
    """The time that has come both here and in Redis, whose clock may be behind: a fire waits for the later of the two.

    That it is behind is found out when it has called something early, and forgotten as soon as it has caught up.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._behind = 0

    def now_ms(self) -> int:
        return self._clock.now_ms() - self._behind

    def looked(self, asked: int, common: int) -> None:
        """Redis was asked for what is due at `asked`, and has answered for `common`, which is as far as it had come."""
        self._behind += asked - common

    def replied(self, redis_now: int, *, was_early: bool = False) -> None:
        """Redis has told its time: by at most so much it is behind, since its reply took time as well."""
        offset = max(0, self._clock.now_ms() - redis_now)
        self._behind = offset if was_early else min(self._behind, offset)
