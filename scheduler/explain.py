"""What a cron expression means, for people: words, a table of its fields, its next fires, and what may surprise.

Pure: `now` is an argument. The warnings are the things that people get wrong about cron in public, each said in a
sentence that names the values at hand. They never stop anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from scheduler.triggers.base import Clipped, Instant, Instants, Trigger, datetime_of, iso, ms_at_or_before
from scheduler.triggers.compound import CompoundTrigger
from scheduler.triggers.cron import CronParser, CronRule, CronTrigger, cron_rule
from scheduler.triggers.cronsyntax import FIELDS, CronFields, Field
from scheduler.triggers.cronwords import field_words, hashed_fields, joined, values_of, words_of
from scheduler.triggers.wall import Placed
from scheduler.triggers.zones import Stretch, Zone, find_zone

YEAR = 366 * 86_400
# A clock change is told by its first few wall times.
_FEW = 3
_LENGTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class Fire:
    """One fire for people: the instant (ms), the local time, and "gap", "repeat" or None (see `Placed.note_at`)."""

    at: int
    local: datetime
    note: str | None

    def to_dict(self) -> dict[str, object]:
        """The fire as JSON data."""
        return {"at": iso(self.at), "epoch": self.at / 1000, "local": self.local.isoformat(), "note": self.note}


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of an expression: as written, the values that it comes to, and in words."""

    name: str
    text: str
    values: tuple[int, ...]
    words: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """All that there is to say about an expression."""

    expression: str
    words: str
    fields: tuple[FieldRow, ...]
    next: tuple[Fire, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, object]:
        """The explanation as JSON data."""
        rows = {row.name: {"text": row.text, "values": list(row.values), "words": row.words} for row in self.fields}
        return {
            "expression": self.expression,
            "words": self.words,
            "fields": rows,
            "next": [iso(fire.at) for fire in self.next],
            "warnings": list(self.warnings),
        }


def explain(
    expression: str,
    tz: str | None = None,
    *,
    now: Instant,
    id: str | None = None,  # noqa: A002 - the public name
    seconds: bool = False,
    n: int = 5,
) -> Explanation:
    """Explains a cron expression on the wall clock of `tz` (None: UTC), with the `n` fires after `now`.

    `id` is the schedule's, which `H` needs. Raises `CronSyntaxError`, `NeverFiresError`, `UnknownZoneError`,
    `TriggerError`.
    """
    fields = CronParser(expression, seconds=seconds, id=id).fields
    trigger = CronTrigger(expression, tz, seconds=seconds, id=id)
    fires = next_fires(trigger, now, n)
    return Explanation(
        expression=expression,
        words=words_of(fields, tz or "UTC"),
        fields=tuple(_rows(fields)),
        next=tuple(fires),
        warnings=tuple(_warnings(trigger, fields, ms_at_or_before(now), fires)),
    )


def warnings_of(trigger: CronTrigger, now: Instant) -> list[str]:
    """The warnings alone, for a cron trigger that exists."""
    return list(_warnings(trigger, trigger.fields, ms_at_or_before(now), next_fires(trigger, now, 2)))


def next_fires(trigger: Trigger, after: Instant, n: int) -> list[Fire]:
    """Up to `n` fires of any trigger later than `after`, with what a clock change has to do with each."""
    name = trigger.timezone
    zone = UTC if name is None or name == "UTC" else ZoneInfo(name)
    fires: list[Fire] = []
    at = trigger.next_ms(ms_at_or_before(after))
    while at is not None and len(fires) < n:
        fires.append(Fire(at, datetime_of(at).astimezone(zone), _note(trigger, at)))
        at = trigger.next_ms(at)
    return fires


def _note(trigger: Trigger, at: int) -> str | None:
    if isinstance(trigger, CompoundTrigger):
        yielding = (member for member in trigger.triggers if member.next_ms(at - 1) == at)
        return next((note for member in yielding if (note := _note(member, at))), None)
    placed = _unclipped(trigger.instants)
    return placed.note_at(at) if isinstance(placed, Placed) else None


def _unclipped(instants: Instants) -> Instants:
    return instants.inner if isinstance(instants, Clipped) else instants


def _rows(fields: CronFields) -> Iterator[FieldRow]:
    masks = (fields.second, fields.minute, fields.hour, fields.day.bits, fields.month, fields.weekday.bits)
    for place, (field, text, bits) in enumerate(zip(FIELDS, fields.texts, masks, strict=True)):
        if place or text != "0":
            yield FieldRow(field.name, text, tuple(values_of(bits)), field_words(fields, place))


def _warnings(trigger: CronTrigger, fields: CronFields, now: int, fires: list[Fire]) -> Iterator[str]:
    yield from _about_days(fields)
    for field, text in zip(FIELDS, fields.texts, strict=True):
        yield from _about_steps(field, text)
    yield from _about_short_months(fields)
    yield from _about_full_hours(fields)
    for name in hashed_fields(fields):
        yield f"{name}: H comes from the schedule's id; another id fires at another time"
    yield from _about_rarity(fires, now)
    yield from _about_clock_changes(trigger, fields, now // 1000)


def _about_days(fields: CronFields) -> Iterator[str]:
    day, weekday = fields.texts[3], fields.texts[5]
    if day in {"*", "?"} or weekday in {"*", "?"}:
        return
    if fields.both_days:
        yield f"day of month {day} and day of week {weekday} must both match, because one of them starts with *"
    else:
        yield (
            f"day of month {day} or day of week {weekday}: cron fires when either matches, not only when both do; "
            "for both, let one of the two start with * or intersect two triggers"
        )


def _about_steps(field: Field, text: str) -> Iterator[str]:
    for item in text.split(","):
        start, _, step_text = item.partition("/")
        if start != "*" or not step_text:
            continue
        step, span = int(step_text), field.high - field.low + 1
        if step >= span:
            yield f"{field.name}: the step {step} is wider than the field, so {item} is the value {field.low} only"
        elif field.is_day_of_month and step > 1:
            yield f"{field.name}: {item} starts again at 1 every month: over a month's end it is not every {step} days"
        elif span % step:
            left = span - (span - 1) // step * step
            yield (
                f"{field.name}: {item} is not every {step} over the end of the field: "
                f"from {field.low + (span - 1) // step * step} to {field.low} it is {left}"
            )


def _about_short_months(fields: CronFields) -> Iterator[str]:
    months = values_of(fields.month)
    for item in fields.texts[3].split(","):
        number = item.removesuffix("W")
        day = int(number) if number.isdigit() else 0
        without = [month for month in months if _LENGTHS[month - 1] < day or (month == 2 and day == 29)]
        if day > 28 and without:
            usually = "most Februaries" if day == 29 else f"{len(without)} of its {len(months)} months"
            yield f"day of month {item}: {usually} have no such day and are left out; L is the last day of any month"
    if any(mark.k == 5 for mark in fields.weekday.marks):
        yield "day of week #5: most months have no fifth one and are left out; L is the last one of any month"


def _about_full_hours(fields: CronFields) -> Iterator[str]:
    text = fields.texts[2]
    if text[0] != "*" and fields.hour == FIELDS[2].full and not fields.wild:
        yield f"hour {text} is not the same as *: an hour that passes twice when clocks go back fires once only"


def _about_rarity(fires: list[Fire], now: int) -> Iterator[str]:
    if fires and fires[0].at - now > YEAR * 1000:
        yield f"the next fire is {round((fires[0].at - now) / 31_556_952_000, 1):g} years away"


def _about_clock_changes(trigger: CronTrigger, fields: CronFields, now: int) -> Iterator[str]:
    zone = find_zone(trigger.timezone)
    # What fires in every hour loses nothing with an hour.
    if zone.info is None or fields.texts[2] == "*":
        return
    rule = cron_rule(trigger.expression, trigger.seconds, trigger.id)
    for change in _changes(zone, now, now + YEAR):
        shift = change.offset - change.before
        low = change.start + min(change.offset, change.before)
        times = list(_walls(rule, low, low + abs(shift)))
        if times:
            yield _about_change(trigger, fields, change, times)


def _changes(zone: Zone, start: int, end: int) -> Iterator[Stretch]:
    """The stretches that begin with a change of offset between two instants."""
    stretch = zone.stretch_at(start)
    while stretch.end < end:
        later = zone.stretch_at(stretch.end)
        if later.before != later.offset and later.start == stretch.end:
            yield later
        stretch = later


def _walls(rule: CronRule, low: int, high: int) -> Iterator[int]:
    wall = rule.next_wall(low)
    while wall is not None and wall < high:
        yield wall
        wall = rule.next_wall(wall + 1)


def _about_change(trigger: CronTrigger, fields: CronFields, change: Stretch, walls: list[int]) -> str:
    day = datetime_of(walls[0] * 1000).date().isoformat()
    named = [f"{datetime_of(wall * 1000):%H:%M}" for wall in walls[:_FEW]] + ["…"] * (len(walls) > _FEW)
    times = joined(named) if len(walls) <= _FEW else " ".join(named)
    verb = "does" if len(walls) == 1 else "do"
    if change.offset > change.before:
        instead = _in_gap(trigger, fields, change)
        return f"{day} in {trigger.timezone}: {times} {verb} not exist when clocks go forward; {instead}"
    repeat = "both" if fields.wild else trigger.repeat
    passing = {"first": "the first time only", "last": "the second time only", "both": "both times"}[repeat]
    passes = "passes" if len(walls) == 1 else "pass"
    return f"{day} in {trigger.timezone}: {times} {passes} twice when clocks go back; it fires {passing}"


def _in_gap(trigger: CronTrigger, fields: CronFields, change: Stretch) -> str:
    if fields.wild or trigger.gap == "skip" or change.offset - change.before >= 3 * 3600:
        return "there is no fire for it"
    if trigger.gap == "shift":
        return "it fires as much later as clocks went forward"
    end = datetime_of((change.start + change.offset) * 1000)
    return f"it fires once, at {end:%H:%M}"
