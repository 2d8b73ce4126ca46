"""The cron dialect: text to bit masks, or one clear error.

Sources: crontab(5) and the observable behaviour of Debian's cron for fields, lists, ranges, steps and the rule for the
two day fields; Quartz' documentation for `L`, `W` and `#`; Jenkins for `H`. Where those differ, this module's choice is
the rule:

    field = item {"," item}
    item  = "*" | a | a-b | "*"/s | a-b/s | a/s (= a-max/s) | H | H/s          a <= b, s >= 1
    day of month also   L | LW | nW | L-n          day of week also   nL | n#k          in both   ?  (the same as *)

A field becomes a mask (bit v set: value v matches) and, for the day fields, a tuple of `Mark`s: what depends on the
month.

The way of a good expression is short, since every schedule takes it at each start: whole tokens are looked up in a
table, and positions are worked out only for a message. Text is bounded before it is looked at, and only ASCII passes:
`str.isdigit` and `int` would accept the digits of all alphabets, and `str.split` blanks that can't be seen.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple, NoReturn

from scheduler.triggers.base import show
from shared.errors import CronSyntaxError, TriggerError

LONGEST = 1000
"""The longest expression, in characters."""

ALIASES = {
    "@YEARLY": "0 0 1 1 *",
    "@ANNUALLY": "0 0 1 1 *",
    "@MONTHLY": "0 0 1 * *",
    "@WEEKLY": "0 0 * * 0",
    "@DAILY": "0 0 * * *",
    "@MIDNIGHT": "0 0 * * *",
    "@HOURLY": "0 * * * *",
}

MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEKDAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_WORD = re.compile(r"[^ \t]+")
_ITEM = re.compile(r"(?:(\*)|([0-9A-Z]+)(?:-([0-9A-Z]+))?)(?:/([0-9]+))?")
_DAY_MARK = re.compile(r"L(?:-(?P<before>[0-9]+))?|(?P<lastweekday>LW)|(?P<near>[0-9]+)W")
_WEEKDAY_MARK = re.compile(r"([0-9A-Z]+?)(?:L|#([0-9]+))")
_HASHED = re.compile(r"H(?:/([0-9]+))?")


class Mark(NamedTuple):
    """A day that depends on the month: `kind` is L, LW, W (n), #(weekday, k) or WL (weekday)."""

    kind: str
    n: int = 0
    k: int = 0


class Mask(NamedTuple):
    """A parsed field: plain values as bits, and what depends on the month."""

    bits: int
    marks: tuple[Mark, ...] = ()


class Field(NamedTuple):
    """One of the six places: its range, the highest number it takes (7 is Sunday again), what each token means.

    `known` holds the masks of the texts that most fields consist of.
    """

    name: str
    low: int
    high: int
    top: int
    full: int
    tokens: dict[str, int]
    known: dict[str, Mask]

    @property
    def is_day(self) -> bool:
        return self.top in {7, 31}

    @property
    def is_day_of_month(self) -> bool:
        return self.low == 1 and self.top == 31

    @property
    def is_day_of_week(self) -> bool:
        return self.top == 7


class CronFields(NamedTuple):
    """A parsed expression. `texts` are the six fields in upper case, seconds first ("0" where none were given)."""

    texts: tuple[str, ...]
    second: int
    minute: int
    hour: int
    day: Mask
    month: int
    weekday: Mask
    wild: bool
    both_days: bool

    @property
    def is_hashed(self) -> bool:
        """Whether it holds an `H`, whose values depend on an id."""
        return any(uses_hash(text) for text in self.texts)


class _FaultError(Exception):
    """What is wrong with a field: `at` counts from its first character."""

    def __init__(self, at: int, found: str, expected: str, hint: str = "") -> None:
        super().__init__()
        self.at, self.found, self.expected, self.hint = at, found, expected, hint


def _field(name: str, low: int, top: int, names: tuple[str, ...] = ()) -> Field:
    high = 6 if top == 7 else top
    tokens = {text: value for value in range(low, top + 1) for text in (str(value), f"{value:02d}")}
    tokens |= {text: low + place for place, text in enumerate(names)}
    full = (2 << high) - (1 << low)
    known = {text: Mask(1 << (0 if top == 7 == value else value)) for text, value in tokens.items()}
    return Field(name, low, high, top, full, tokens, known | {"*": Mask(full)} | _known_marks(top, tokens))


def _known_marks(top: int, tokens: dict[str, int]) -> dict[str, Mask]:
    if top == 31:
        near = {f"{text}W": Mask(0, (Mark("W", day),)) for text, day in tokens.items()}
        return near | {"L": Mask(0, (Mark("L"),)), "LW": Mask(0, (Mark("LW"),))}
    if top != 7:
        return {}
    last = {f"{text}L": Mask(0, (Mark("WL", day % 7),)) for text, day in tokens.items()}
    return last | {
        f"{text}#{k}": Mask(0, (Mark("#", day % 7, k),)) for text, day in tokens.items() for k in range(1, 6)
    }


FIELDS = (
    _field("second", 0, 59),
    _field("minute", 0, 59),
    _field("hour", 0, 23),
    _field("day of month", 1, 31),
    _field("month", 1, 12, MONTHS),
    _field("day of week", 0, 7, WEEKDAYS),
)


def uses_hash(text: str) -> bool:
    """Whether a field's text, in upper case, has an `H` item."""
    return "H" in text and any(_HASHED.fullmatch(item) for item in text.split(","))


def parse(text: str, *, seconds: bool = False, schedule_id: str | None = None) -> CronFields:
    """The fields of an expression. Without an id an `H` stands for every value of its field.

    Raises `CronSyntaxError` with the field, the position in `text`, what was found and what was expected.
    """
    words = _words(text, seconds)
    try:
        second, minute, hour, day, month, weekday = [
            field.known.get(word) or _parse_field(word, field, schedule_id)
            for word, field in zip(words, FIELDS, strict=True)
        ]
    except _FaultError:
        _raise_at(text, words, schedule_id)
    wild = "*" in {words[0][0], words[1][0], words[2][0]}
    both_days = words[3][0] in "*?" or words[5][0] in "*?"
    return CronFields(words, second.bits, minute.bits, hour.bits, day, month.bits, weekday, wild, both_days)


def _words(text: str, seconds: bool) -> tuple[str, ...]:
    if not isinstance(text, str):
        raise TriggerError(f"a cron expression is text; found {show(text)}")
    _check_characters(text)
    words = tuple(_WORD.findall(text.upper()))
    if len(words) == 1:
        words = tuple(_alias(text, words[0]).split())
    if len(words) == 6 and seconds:
        return words
    if len(words) == 5:
        return ("0", *words)
    raise _wrong_count(text, words, seconds)


def _check_characters(text: str) -> None:
    if len(text) > LONGEST:
        raise _refusal(text, "expression", LONGEST, f"{len(text)} characters", f"at most {LONGEST}")
    if not text.isascii():
        at = next(place for place, character in enumerate(text) if not character.isascii())
        raise _refusal(text, _field_at(text, at), at, ascii(text[at]), "ASCII characters only")


def _field_at(text: str, at: int) -> str:
    """The name of the field that holds a position, if the text has as many words as there are fields."""
    ends = [word.end() for word in _WORD.finditer(text)]
    fields = FIELDS[6 - len(ends) :] if len(ends) in {5, 6} else ()
    return next((field.name for field, end in zip(fields, ends, strict=bool(fields)) if at < end), "expression")


def _alias(text: str, word: str) -> str:
    if word in ALIASES:
        return ALIASES[word]
    if word.startswith("@EVERY"):
        raise _refusal(text, "expression", 0, show(word), "a cron expression", "use IntervalTrigger, or every()")
    if word.startswith("@"):
        raise _refusal(text, "expression", 0, show(word), "one of " + ", ".join(ALIASES).lower())
    return word


def _wrong_count(text: str, words: tuple[str, ...], seconds: bool) -> CronSyntaxError:
    expected = "5 fields, or 6 with the seconds first" if seconds else "5 fields"
    hint = ""
    if words and words[0].startswith("@EVERY"):
        hint = "use IntervalTrigger, or every()"
    elif words and "=" in words[0]:
        hint = "give the zone apart: timezone='Europe/Paris'"
    elif len(words) == 6:
        hint = "six fields are read, seconds first, only with seconds=True"
    return _refusal(text, "expression", 0, f"{len(words)} field{'s' * (len(words) != 1)}", expected, hint)


def _parse_field(word: str, field: Field, schedule_id: str | None) -> Mask:
    bits = 0
    marks: tuple[Mark, ...] = ()
    items = word.split(",")
    for place, item in enumerate(items):
        value = field.tokens.get(item)
        if value is not None:
            bits |= 1 << value
            continue
        try:
            mask = _parse_item(item, field, schedule_id)
        except _FaultError as fault:
            fault.at += sum(len(earlier) + 1 for earlier in items[:place])
            raise
        bits |= mask.bits
        marks += mask.marks
    # Sunday is both 0 and 7.
    return Mask((bits | bits >> 7) & field.full if field.top == 7 else bits, marks)


def _parse_item(item: str, field: Field, schedule_id: str | None) -> Mask:
    if item.startswith("H") and (hashed := _HASHED.fullmatch(item)):
        return Mask(_hashed_bits(hashed[1], field, schedule_id))
    if field.is_day:
        if item.startswith("?"):
            item = "*" + item[1:]
        if mark := _parse_mark(item, field):
            return Mask(0, (mark,))
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _malformed(item, field)
    star, first, last, step = match.groups()
    low = field.low if star else _value(first, field, 0)
    high = _value(last, field, match.start(3)) if last else low
    if low > high:
        raise _reversed(item, field, first, last)
    if star or (step and not last):
        high = max(low, field.high)
    return Mask(_bits(low, high, _step(step, match.start(4)) if step else 1))


def _bits(low: int, high: int, step: int) -> int:
    if step == 1:
        return (2 << high) - (1 << low)
    return sum([1 << value for value in range(low, high + 1, step)])


def _step(text: str, at: int) -> int:
    step = int(text)
    if step == 0:
        raise _FaultError(at, text, "a step of at least 1")
    return step


def _value(token: str, field: Field, at: int) -> int:
    value = field.tokens.get(token)
    if value is None and token.isdigit():
        # More leading zeros than the table has.
        value = int(token)
    if value is None or not field.low <= value <= field.top:
        raise _FaultError(at, token, _expected(field), _hint(token, field))
    return value


def _parse_mark(item: str, field: Field) -> Mark | None:
    if field.is_day_of_week:
        match = _WEEKDAY_MARK.fullmatch(item)
        return None if match is None else _weekday_mark(match, field)
    match = _DAY_MARK.fullmatch(item)
    return None if match is None else _day_mark(match, field)


def _day_mark(match: re.Match[str], field: Field) -> Mark:
    if match["near"]:
        return Mark("W", _value(match["near"], field, 0))
    if match["lastweekday"]:
        return Mark("LW")
    before = int(match["before"] or 0)
    if before > 30:
        raise _FaultError(2, match["before"], "0 to 30 days before the last")
    return Mark("L", before)


def _weekday_mark(match: re.Match[str], field: Field) -> Mark:
    weekday = _value(match[1], field, 0) % 7
    if match[2] is None:
        return Mark("WL", weekday)
    if not 1 <= (k := int(match[2])) <= 5:
        raise _FaultError(match.start(2), match[2], "1 to 5: which of the weekdays of that name in the month")
    return Mark("#", weekday, k)


def _hashed_bits(step_text: str | None, field: Field, schedule_id: str | None) -> int:
    """The value or values for an id. Days of the month stay below 29: no schedule misses February by chance."""
    if schedule_id is None:
        return field.full
    digest = hashlib.sha256(f"{schedule_id}\0{field.name}".encode("utf-8", "surrogatepass")).digest()
    number = int.from_bytes(digest[:8], "big")
    span = 28 if field.is_day_of_month else field.high - field.low + 1
    if step_text is None:
        return 1 << field.low + number % span
    step = _step(step_text, 2)
    return _bits(field.low + number % min(step, span), field.high, step)


def _malformed(item: str, field: Field) -> _FaultError:
    if not item:
        return _FaultError(0, "", _expected(field))
    odd = re.search(r"[^0-9A-Z*/#?-]", item)
    at = odd.start() if odd else 0
    return _FaultError(at, odd[0] if odd else item, _expected(field), _hint(item, field))


def _reversed(item: str, field: Field, first: str, last: str) -> _FaultError:
    low, high = _value(first, field, 0), _value(last, field, 0)
    ends_on_sunday = field.is_day_of_week and high == 0
    better = f"{low}-7" if ends_on_sunday else f"{low}-{field.high},{field.low}-{high}"
    return _FaultError(0, item, "a range from low to high", f"write {better}")


def _expected(field: Field) -> str:
    values = f"a value, list, range or step from {field.low} to {field.top}"
    if field.is_day_of_month:
        return f"{values}, or L, LW, nW, L-n"
    if field.is_day_of_week:
        return f"{values} or SUN-SAT, or nL, n#k"
    return f"{values} or JAN-DEC" if field.name == "month" else values


def _hint(item: str, field: Field) -> str:
    if field.is_day_of_month and (match := re.fullmatch(r"([LW])([0-9]+)", item)):
        return f"write L-{match[2]} for days before the last" if match[1] == "L" else f"write {match[2]}W"
    if field.is_day_of_week and item == "L":
        return "write 6 for Saturdays, or 6L for the last one of the month"
    if item == "?":
        return "? stands in the two day fields only"
    if item.strip("0123456789-") in {*MONTHS, *WEEKDAYS}:
        return "names stand in the month and day of week fields only"
    return ""


def _raise_at(text: str, words: tuple[str, ...], schedule_id: str | None) -> NoReturn:
    """Raises for the first field at fault, with its place in the text as given."""
    starts = [word.start() for word in _WORD.finditer(text)]
    for word, field, start in zip(words, FIELDS, [0] * (6 - len(starts)) + starts, strict=True):
        try:
            _parse_field(word, field, schedule_id)
        except _FaultError as fault:
            at = start + fault.at
            # As it was written, not as it was read.
            found = show(text[at : at + len(fault.found)]) if fault.found else "nothing"
            raise _refusal(text, field.name, at, found, fault.expected, fault.hint) from None
    raise AssertionError("called for a fault only")


def _refusal(text: str, field: str, at: int, found: str, expected: str, hint: str = "") -> CronSyntaxError:
    where = "" if field == "expression" else f"{field}, "
    message = f"cron expression {show(text)}: {where}position {at}: found {found}, expected {expected}"
    return CronSyntaxError(f"{message}; {hint}" if hint else message, field=field, position=at)
