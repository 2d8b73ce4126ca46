"""What a trigger is: a rule that yields instants, pure and immutable.

A trigger never reads a clock, never draws a random number and never asks the host for its zone: equal triggers yield
the same instants on every machine, in every process, for ever. That is what makes a nominal time a *name* for a fire.

**Instants.** Inside, an instant is a whole number of milliseconds since 1970-01-01T00:00Z; outside it is epoch seconds
(`float`) or an aware datetime. A float can't hold most thousandths exactly, so the one conversion is done here and
always the same way: the milliseconds of a float are the latest whole millisecond that is not after it *as a float*.
Hence `next_fire(ms / 1000) > ms / 1000` for every instant that a trigger yields.

**The laws.** With `f` for `next_ms`:

    f(a) > a                                  strictly later
    a <= b  implies  f(a) <= f(b)             monotone
    no instant lies between a and f(a)        nothing is skipped
    f(f(a) - 1) == f(a)                       an instant is found from just before it
    f(a) is None                              never again, not merely "not found"

`prev_ms` mirrors them, and `count_ms(a, b)` is the number of steps that `f` takes from `a` up to `b`.

A trigger class is a declaration (what was asked for: compared, hashed, shown, stored) that builds one `Instants` (how
it is computed). The declaration is frozen; bounds (`start`, `end`) are laid around any `Instants` by `Clipped`.
"""

from __future__ import annotations

import reprlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, ClassVar, Protocol
from zoneinfo import ZoneInfo

from shared.errors import TriggerError

if TYPE_CHECKING:
    from scheduler.triggers.compound import CompoundTrigger

FIRST_MS = -62_135_596_800_000
"""0001-01-01T00:00Z, in ms: nothing fires before it."""

END_MS = 253_402_300_800_000
"""10000-01-01T00:00Z, in ms: nothing fires at or after it."""

_SHORT = reprlib.Repr()
_SHORT.maxstring = 64

Instant = float | datetime
"""What a person may pass as an instant: epoch seconds, or an aware datetime."""

Duration = float | timedelta
"""What a person may pass as a length of time: seconds, or a timedelta."""


class TriggerType(Enum):
    """The kinds of trigger, by the names that listings show."""

    INTERVAL = "interval"
    CRON = "cron"
    DATETIME = "datetime"
    COMPOUND = "compound"
    CALENDAR_INTERVAL = "calendar_interval"
    RRULE = "rrule"
    BUSINESS_DAY = "business_day"


class Instants(Protocol):
    """A strictly increasing set of instants, in ms, that can be searched and counted without being walked."""

    def next_ms(self, after: int) -> int | None:
        """The earliest instant later than `after`."""

    def prev_ms(self, before: int) -> int | None:
        """The latest instant earlier than `before`."""

    def count_ms(self, after: int, until: int) -> int:
        """How many instants lie in (after, until]."""


@dataclass(frozen=True, slots=True)
class Clipped:
    """The instants of `inner` that lie in [first, limit)."""

    inner: Instants
    first: int
    limit: int

    def next_ms(self, after: int) -> int | None:
        found = self.inner.next_ms(max(after, self.first - 1))
        return found if found is not None and found < self.limit else None

    def prev_ms(self, before: int) -> int | None:
        found = self.inner.prev_ms(min(before, self.limit))
        return found if found is not None and found >= self.first else None

    def count_ms(self, after: int, until: int) -> int:
        low, high = max(after, self.first - 1), min(until, self.limit - 1)
        return self.inner.count_ms(low, high) if low < high else 0


@dataclass(frozen=True, slots=True)
class Unbound:
    """The instants of a trigger that depends on an id and has none: there is no answer, and `reason` says why."""

    reason: str

    def next_ms(self, _after: int) -> int | None:
        raise TriggerError(self.reason)

    def prev_ms(self, _before: int) -> int | None:
        raise TriggerError(self.reason)

    def count_ms(self, _after: int, _until: int) -> int:
        raise TriggerError(self.reason)


class Trigger:
    """The base of all triggers: the questions that the scheduler asks. Subclasses are frozen dataclasses."""

    __slots__ = ()

    trigger_type: ClassVar[TriggerType]
    instants: Instants

    @property
    def timezone(self) -> str | None:
        """The zone whose wall clock the trigger follows; None when it follows none."""
        return None

    def describe(self) -> str:
        """The trigger in a few words, for a column of a list."""
        raise NotImplementedError

    def parts(self) -> tuple[Trigger, ...]:
        """The triggers that this one is made of."""
        return ()

    def bound_to(self, schedule_id: str) -> Trigger:  # noqa: ARG002 - most triggers have nothing to bind
        """The same trigger with what depends on the schedule's id (`H` in cron) settled; itself if nothing does."""
        return self

    def next_ms(self, after: int) -> int | None:
        """The earliest instant later than `after`, both in epoch ms; None when there is none, ever again."""
        return self.instants.next_ms(after)

    def prev_ms(self, before: int) -> int | None:
        """The latest instant earlier than `before`, both in epoch ms; as cheap over a gap of years as of seconds."""
        return self.instants.prev_ms(before)

    def count_ms(self, after: int, until: int) -> int:
        """How many instants lie in (after, until], epoch ms."""
        return self.instants.count_ms(after, until) if after < until else 0

    def next_fire(self, last_fire: float) -> float | None:
        """The earliest instant later than `last_fire`, both in epoch seconds (0 is 1970); None = never again."""
        found = self.instants.next_ms(ms_at_or_before(last_fire))
        return None if found is None else found / 1000

    def fire_times(self, start: Instant, n: int) -> list[datetime]:
        """Up to `n` fires later than `start`, as aware datetimes in the trigger's zone (UTC if it has none)."""
        zone = ZoneInfo(self.timezone) if self.timezone not in {None, "UTC"} else UTC
        times: list[datetime] = []
        at = self.next_ms(ms_at_or_before(start))
        while at is not None and len(times) < n:
            times.append(datetime_of(at).astimezone(zone))
            at = self.next_ms(at)
        return times

    def __or__(self, other: Trigger) -> CompoundTrigger:
        """The union: fires whenever either does; an instant of both is one fire."""
        return _combine(self, other, "or")

    def __and__(self, other: Trigger) -> CompoundTrigger:
        """The intersection: fires at the instants that both yield."""
        return _combine(self, other, "and")

    def __sub__(self, other: Trigger) -> CompoundTrigger:
        """What remains of this trigger without the instants of the other."""
        return _combine(self, other, "minus")


def _combine(left: Trigger, right: Trigger, logic: str) -> CompoundTrigger:
    from scheduler.triggers.compound import CompoundLogic, CompoundTrigger  # noqa: PLC0415 - it is built on this one

    return CompoundTrigger((left, right), CompoundLogic(logic))


def ms_at_or_before(at: Instant) -> int:
    """The latest whole ms that is not after `at`. Refuses nan, infinities and naive datetimes with `TriggerError`."""
    if isinstance(at, float) and at - at == 0:  # neither nan nor an infinity
        ms = round(at * 1000)
        return ms if ms / 1000 <= at else ms - 1
    if isinstance(at, datetime):
        return _ms_of_datetime(at)
    if isinstance(at, int):
        return at * 1000
    raise TriggerError(f"{show(at)} is no instant: expected finite epoch seconds or an aware datetime")


def ms_at_or_after(at: Instant, name: str) -> int:
    """The earliest whole ms that is not before `at`, from 1970 to 9999; `name` is what the error calls it."""
    try:
        ms = ms_at_or_before(at)
    except TriggerError as error:
        raise TriggerError(f"{name}: {error}") from None
    if not 0 <= ms < END_MS - 1000:
        raise TriggerError(f"{name}: {show(at)} is out of range: instants lie between 1970 and 9999")
    return ms if _is_exactly(at, ms) else ms + 1


def whole_ms_of(at: Instant, name: str) -> int:
    """`at` in ms, refused with `TriggerError` unless it is a whole number of them: an anchor must not be rounded."""
    ms = ms_at_or_after(at, name)
    if not _is_exactly(at, ms):
        raise TriggerError(f"{name}: {show(at)} is not a whole number of milliseconds")
    return ms


def whole_ms_in(length: Duration, name: str) -> int:
    """A length of time in ms, refused with `TriggerError` unless it is finite, not negative, and whole ms."""
    seconds = length.total_seconds() if isinstance(length, timedelta) else length
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TriggerError(f"{name}: {show(length)} is no length of time: expected seconds or a timedelta")
    if not 0 <= seconds < END_MS / 1000:  # so nan is refused as well
        raise TriggerError(f"{name}: {show(length)} is out of range: expected finite seconds, not negative")
    ms = round(seconds * 1000)
    if ms / 1000 != seconds:
        raise TriggerError(f"{name}: {show(length)} is not a whole number of milliseconds")
    return ms


def datetime_of(ms: int) -> datetime:
    """An instant in ms as an aware datetime in UTC."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


def iso(ms: int) -> str:
    """An instant in ms as ISO 8601 in UTC with `Z`; milliseconds only when there are any."""
    return datetime_of(ms).isoformat(timespec="milliseconds" if ms % 1000 else "seconds").replace("+00:00", "Z")


def show(value: object) -> str:
    """A value for an error message, never longer than a line, however large or deep it is."""
    try:
        text = _SHORT.repr(value)
    except ValueError:  # Python declines to write out an int of thousands of digits
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."


def clipped(instants: Instants, start: Instant | None, end: Instant | None) -> Instants:
    """`instants` within [start, end), where either may be open."""
    if isinstance(instants, Unbound) or (start is None and end is None):
        return instants
    first = FIRST_MS if start is None else ms_at_or_after(start, "start")
    limit = END_MS if end is None else ms_at_or_after(end, "end")
    if first >= limit:
        raise TriggerError(f"start {iso(first)} is not before end {iso(limit)}: the trigger would never fire")
    return clip(instants, first, limit)


def clip(instants: Instants, first: int, limit: int) -> Clipped:
    """`instants` within [first, limit), ms; bounds that were there already are narrowed, not wrapped."""
    if isinstance(instants, Clipped):
        return Clipped(instants.inner, max(first, instants.first), min(limit, instants.limit))
    return Clipped(instants, first, limit)


def settle(declaration: object, **values: object) -> None:
    """Sets fields of a frozen declaration while it is being made."""
    for name, value in values.items():
        object.__setattr__(declaration, name, value)


def seconds_of(at: Instant | None) -> float | None:
    """An optional bound as it is stored in a declaration: epoch seconds."""
    return None if at is None else ms_at_or_after(at, "instant") / 1000


def _ms_of_datetime(at: datetime) -> int:
    if at.tzinfo is None or at.utcoffset() is None:
        raise TriggerError(f"{at.isoformat()} has no time zone: pass an aware datetime (tzinfo=…) or epoch seconds")
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def _is_exactly(at: Instant, ms: int) -> bool:
    return at.microsecond % 1000 == 0 if isinstance(at, datetime) else ms / 1000 == at
