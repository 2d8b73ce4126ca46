"""Triggers as plain data, and back.

The data is what msgpack and JSON can carry: a dict with the format's version `v`, the trigger's `type`, and its
parameters under the names of its constructor. Instants and lengths are whole milliseconds. A parameter at its default
is left out, so equal triggers give equal data and a new parameter does not change what is stored. A reader refuses a
version or a type that it does not know: half a trigger would fire at wrong times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from scheduler.triggers.base import Trigger, show
from scheduler.triggers.calendarinterval import CalendarIntervalTrigger
from scheduler.triggers.calendars import BusinessDayTrigger, Calendar
from scheduler.triggers.compound import CompoundLogic, CompoundTrigger
from scheduler.triggers.cron import CronTrigger
from scheduler.triggers.date import DateTrigger
from scheduler.triggers.interval import IntervalTrigger
from scheduler.triggers.rrule import RRuleTrigger
from shared.errors import ConfigurationError, TriggerError

VERSION = 1

Data = dict[str, object]


@dataclass(frozen=True, slots=True)
class Format:
    """How a class is stored: which parameters are seconds (stored in ms), and what they are when left out."""

    kind: type[Trigger]
    in_seconds: frozenset[str]
    left_out: Data = field(default_factory=dict)

    def write(self, trigger: Trigger) -> Data:
        given = {name: getattr(trigger, name) for name in parameters_of(trigger)}
        return {
            name: round(value * 1000) if name in self.in_seconds else _plain(value)
            for name, value in given.items()
            if value is not None and value != self.left_out.get(name)
        }

    def read(self, data: Mapping[str, object]) -> Trigger:
        return self.kind(**{name: self._value(name, stored) for name, stored in data.items()})

    def _value(self, name: str, stored: object) -> object:
        return cast("int", stored) / 1000 if name in self.in_seconds else _READERS.get(name, _as_is)(stored)


_BOUNDS = frozenset({"start", "end"})
_WALL: Data = {"gap": "next", "repeat": "first"}

_FORMATS = {
    "cron": Format(CronTrigger, _BOUNDS, _WALL | {"seconds": False}),
    "interval": Format(IntervalTrigger, _BOUNDS | {"seconds", "jitter"}, {"jitter": 0.0}),
    "date": Format(DateTrigger, frozenset({"at"})),
    "compound": Format(CompoundTrigger, _BOUNDS),
    "calendar_interval": Format(CalendarIntervalTrigger, _BOUNDS, _WALL | {"short_month": "last"}),
    "rrule": Format(RRuleTrigger, _BOUNDS, _WALL),
    "business_day": Format(BusinessDayTrigger, _BOUNDS),
}


def parameters_of(declaration: object) -> list[str]:
    """The names of what a trigger or a calendar was declared with."""
    return [each.name for each in dataclasses.fields(cast("CronTrigger", declaration)) if each.compare]


def to_data(trigger: Trigger) -> Data:
    """A trigger as plain data. Raises `TriggerError` for a class that is not one of ours."""
    for name, stored_as in _FORMATS.items():
        if type(trigger) is stored_as.kind:
            return {"v": VERSION, "type": name} | stored_as.write(trigger)
    raise TriggerError(f"{type(trigger).__qualname__} can't be stored: it is not one of the known triggers")


def from_data(data: Mapping[str, object]) -> Trigger:
    """The trigger that `to_data` made this from. Raises `TriggerError` for anything else."""
    if not isinstance(data, Mapping):
        raise TriggerError(f"a stored trigger is a mapping; found {show(data)}")
    if data.get("v") != VERSION:
        raise TriggerError(f"stored trigger of version {show(data.get('v'))}: this program reads version {VERSION}")
    kind = data.get("type")
    if not isinstance(kind, str) or kind not in _FORMATS:
        raise TriggerError(f"stored trigger of type {show(kind)}: known are {', '.join(_FORMATS)}")
    try:
        return _FORMATS[kind].read({name: value for name, value in data.items() if name not in {"v", "type"}})
    except ConfigurationError:
        raise
    except (TypeError, AttributeError, ValueError, RecursionError) as error:
        raise TriggerError(f"stored trigger {show(data)} does not fit its type: {error}") from None


def _plain(value: object) -> object:
    if isinstance(value, Trigger):
        return to_data(value)
    if isinstance(value, Calendar):
        windows = [[round(at * 1000) for at in window] for window in value.blackouts]
        return {name: _plain(getattr(value, name)) for name in parameters_of(value)} | {"blackouts": windows}
    if isinstance(value, CompoundLogic):
        return value.value
    return [_plain(each) for each in value] if isinstance(value, tuple) else value


def _as_is(stored: object) -> object:
    return stored


def _read_logic(stored: object) -> object:
    return CompoundLogic(stored)


def _read_triggers(stored: object) -> object:
    return tuple(from_data(each) for each in cast("list[Data]", stored))


def _read_trigger(stored: object) -> object:
    return from_data(cast("Data", stored))


def _read_calendar(stored: object) -> object:
    given = dict(cast("dict[str, Any]", stored))
    windows = [(start / 1000, end / 1000) for start, end in given.pop("blackouts", ())]
    return Calendar(**given, blackouts=windows)


# Parameters that are not plain themselves, by name: no two classes use one name for different things.
_READERS: dict[str, Callable[[object], object]] = {
    "logic": _read_logic,
    "triggers": _read_triggers,
    "trigger": _read_trigger,
    "calendar": _read_calendar,
}
