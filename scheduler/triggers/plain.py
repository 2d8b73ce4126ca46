"""Triggers as plain data, and back.

The data is what msgpack and JSON can carry: a dict with the format's version `v`, the trigger's `type`, and its
parameters under the names of its constructor. Instants and lengths are whole milliseconds. A parameter at its default
is left out, so equal triggers give equal data and a new parameter does not change what is stored. A reader refuses a
version or a type that it does not know: half a trigger would fire at wrong times.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from scheduler.triggers.base import Trigger, show
from scheduler.triggers.cron import CronTrigger
from scheduler.triggers.date import DateTrigger
from scheduler.triggers.interval import IntervalTrigger
from shared.errors import TriggerError

VERSION = 1

Data = dict[str, object]


@dataclass(frozen=True, slots=True)
class Format:
    """How a class is stored: which parameters are seconds (stored in ms), and what they are when left out."""

    kind: type[Trigger]
    in_seconds: frozenset[str]
    left_out: Data = field(default_factory=dict)

    def write(self, trigger: Trigger) -> Data:
        names = [
            each.name for each in dataclasses.fields(cast("CronTrigger", trigger)) if not each.name.startswith("_")
        ]
        given = {name: getattr(trigger, name) for name in names}
        return {
            name: round(value * 1000) if name in self.in_seconds else value
            for name, value in given.items()
            if value is not None and value != self.left_out.get(name)
        }

    def read(self, data: Data) -> Trigger:
        return self.kind(**{name: self._value(name, stored) for name, stored in data.items()})

    def _value(self, name: str, stored: object) -> object:
        return cast("int", stored) / 1000 if name in self.in_seconds else stored


_BOUNDS = frozenset({"start", "end"})

_FORMATS = {
    "cron": Format(CronTrigger, _BOUNDS, {"seconds": False, "gap": "next", "repeat": "first"}),
    "interval": Format(IntervalTrigger, _BOUNDS | {"seconds", "jitter"}, {"jitter": 0.0}),
    "date": Format(DateTrigger, frozenset({"at"})),
}


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
    except (TypeError, AttributeError) as error:
        raise TriggerError(f"stored trigger {show(data)} does not fit its type: {error}") from None
