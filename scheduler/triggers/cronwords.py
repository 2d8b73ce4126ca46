"""A cron expression in English.

The words follow the fields as they were written, not only what they come to: "every 5 minutes" for `*/5`, the list for
a list.
"""

from __future__ import annotations

from scheduler.triggers.cronsyntax import FIELDS, CronFields, Field, uses_hash

_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_WEEKDAYS = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_ORDINALS = ("", "first", "second", "third", "fourth", "fifth")
# So many times of day are still named one by one.
_FEW_TIMES = 6


def words_of(fields: CronFields, zone: str) -> str:
    """One sentence: at which times, on which days, in which months, by whose clock."""
    parts = [_times(fields), _days(fields), _months(fields)]
    sentence = ", ".join(part for part in parts if part)
    return f"{sentence[0].upper()}{sentence[1:]} ({zone} time)."


def values_of(bits: int) -> list[int]:
    """The values that a mask holds, ascending."""
    return [value for value in range(bits.bit_length()) if bits >> value & 1]


def joined(parts: list[str], last: str = "and") -> str:
    """ "a", "a and b", "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def field_words(fields: CronFields, place: int) -> str:
    """What one field says by itself."""
    match place:
        case 3:
            return _days_of_month(fields)
        case 4:
            return _months(fields) or "every month"
        case 5:
            return _days_of_week(fields)
        case _:
            return _steps(fields, place)


def _times(fields: CronFields) -> str:
    named = _named_times(fields)
    if named:
        return f"at {joined(named)}"
    minutes = _steps(fields, 1)
    if fields.texts[0] != "0":
        minutes = (
            f"{_steps(fields, 0)} of {minutes.removeprefix('at ')}" if fields.texts[1] != "*" else _seconds(fields)
        )
    return " ".join([minutes, *_hours(fields)])


def _seconds(fields: CronFields) -> str:
    """A second field beside a minute field that is a star."""
    seconds = _steps(fields, 0)
    return seconds if seconds.startswith("every") else f"{seconds} of every minute"


def _named_times(fields: CronFields) -> list[str]:
    """The times of day, if they are few and no field but a list of numbers made them."""
    if any(text[0] == "*" for text in fields.texts[:3]):
        return []
    hours, minutes, seconds = (values_of(bits) for bits in (fields.hour, fields.minute, fields.second))
    if len(hours) * len(minutes) * len(seconds) > _FEW_TIMES:
        return []
    tail = "" if fields.texts[0] == "0" else ":{:02d}"
    return [
        f"{hour:02d}:{minute:02d}{tail.format(second)}" for hour in hours for minute in minutes for second in seconds
    ]


def _hours(fields: CronFields) -> list[str]:
    text = fields.texts[2]
    if text == "*":
        is_even = fields.texts[1] == "*" or 60 % (_plain_step(fields.texts[1], FIELDS[1]) or 7) == 0
        return [] if is_even else ["of every hour"]
    if text.startswith("*/"):
        return [f"of {_steps(fields, 2)}"]
    hours = values_of(fields.hour)
    if hours == list(range(hours[0], hours[-1] + 1)):
        return [f"from {hours[0]:02d}:00 to {hours[-1]:02d}:59"]
    return [f"of the hours {joined([f'{hour:02d}' for hour in hours])}"]


def _steps(fields: CronFields, place: int) -> str:
    """A second, minute or hour field: "every minute", "every 5 minutes", "minutes 5 and 10"."""
    field, text = FIELDS[place], fields.texts[place]
    values = values_of((fields.second, fields.minute, fields.hour)[place])
    if text == "*":
        return f"every {field.name}"
    step = _plain_step(text, field)
    if step:
        return (
            f"every {step} {field.name}s" if (field.top + 1) % step == 0 else f"every {_nth(step)} {field.name} from 0"
        )
    numbers = [str(value) for value in values]
    if len(values) > 3 and values == list(range(values[0], values[-1] + 1)):
        numbers = [f"{values[0]} to {values[-1]}"]
    return f"at {field.name}{'s' * (len(values) > 1)} {joined(numbers)}"


def _plain_step(text: str, field: Field) -> int:
    """The step of `*/s`, if it is at least 2 and not wider than the field; else 0."""
    step = int(text[2:]) if text.startswith("*/") and text[2:].isdigit() else 0
    return step if 2 <= step <= field.high else 0


def _nth(number: int) -> str:
    if number % 100 in {11, 12, 13}:
        return f"{number}th"
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number % 10, 'th')}"


def _days(fields: CronFields) -> str:
    day, weekday = fields.texts[3], fields.texts[5]
    if day in {"*", "?"}:
        return "every day" if weekday in {"*", "?"} else _days_of_week(fields)
    if weekday in {"*", "?"}:
        return _days_of_month(fields)
    if fields.both_days:
        return f"{_days_of_month(fields)}, if it falls {_days_of_week(fields)}"
    return f"{_days_of_month(fields)} or {_days_of_week(fields)}"


def _days_of_month(fields: CronFields) -> str:
    text, (bits, marks) = fields.texts[3], fields.day
    if text in {"*", "?"}:
        return "every day"
    if step := _plain_step(text, FIELDS[3]):
        return f"on every {_nth(step)} day of the month from the 1st"
    names = {"LW": "the last weekday", "L": "the last day"}
    parts = [_numbers("day", "days", values_of(bits))] if bits else []
    for mark in marks:
        if mark.kind == "W":
            parts.append(f"the weekday nearest to day {mark.n}")
        else:
            before = f"the day {mark.n} day{'s' * (mark.n > 1)} before " if mark.n else ""
            parts.append(before + names[mark.kind])
    return f"on {joined(parts)} of the month"


def _days_of_week(fields: CronFields) -> str:
    text, (bits, marks) = fields.texts[5], fields.weekday
    if text in {"*", "?"}:
        return "every day of the week"
    parts = _weekday_names(values_of(bits)) if bits else []
    for mark in marks:
        which = "last" if mark.kind == "WL" else _ORDINALS[mark.k]
        parts.append(f"the {which} {_WEEKDAYS[mark.n]} of the month")
    return f"on {joined(parts)}"


def _weekday_names(days: list[int]) -> list[str]:
    # From Monday on, as people count, so that 5-7 is one run.
    monday_first = sorted((day - 1) % 7 for day in days)
    if len(monday_first) > 2 and monday_first == list(range(monday_first[0], monday_first[-1] + 1)):
        return [f"{_WEEKDAYS[(monday_first[0] + 1) % 7]} to {_WEEKDAYS[(monday_first[-1] + 1) % 7]}"]
    return [_WEEKDAYS[(day + 1) % 7] for day in monday_first]


def _months(fields: CronFields) -> str:
    text, months = fields.texts[4], values_of(fields.month)
    if text == "*" or len(months) == 12:
        return ""
    if len(months) > 2 and months == list(range(months[0], months[-1] + 1)):
        return f"in {_MONTHS[months[0] - 1]} to {_MONTHS[months[-1] - 1]}"
    return f"in {joined([_MONTHS[month - 1] for month in months])}"


def _numbers(one: str, many: str, values: list[int]) -> str:
    if len(values) > 2 and values == list(range(values[0], values[-1] + 1)):
        return f"{many} {values[0]} to {values[-1]}"
    return f"{one if len(values) == 1 else many} {joined([str(value) for value in values])}"


def hashed_fields(fields: CronFields) -> list[str]:
    """The names of the fields whose value comes from the schedule's id."""
    return [field.name for field, text in zip(FIELDS, fields.texts, strict=True) if uses_hash(text)]
