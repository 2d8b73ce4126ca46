"""Dataclasses and enums as plain data, by annotation: flattened where a job is sent, rebuilt where it runs.

A payload names no class. What it holds is rebuilt as what the annotations of the job's own `handle` say, read in the
worker: so nothing is imported that the app did not import, and a class may move while jobs wait. A dataclass travels
as a map of its fields, an enum as its values where all of them are text or whole numbers, else as its names. Of a union
of several such types each travels under its class' bare name, `{"Card": …}`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import count
from typing import Any, Protocol

from shared.codec import MAX_DEPTH, MAX_ITEMS, encode
from shared.errors import PayloadError, RefusedPayloadError


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the arguments a value stands. Bounded as the codec bounds what it writes."""

    path: str
    room: int = MAX_DEPTH
    seen: Iterator[int] = dataclasses.field(default_factory=lambda: count(1))

    def inside(self, step: str) -> Place:
        """The place of a part. Raises PayloadError for one too deep or too many."""
        if self.room <= 0:
            raise PayloadError(f"nested deeper than {MAX_DEPTH}", path=self.path[:200])
        if next(self.seen) > MAX_ITEMS:
            raise PayloadError(f"more than {MAX_ITEMS:,} items. Pass a reference instead", path=self.path[:200])
        return Place(self.path + step, self.room - 1, self.seen)


class Shape(Protocol):
    """What an annotation says of a value."""

    @property
    def is_structured(self) -> bool:
        """Whether a value of this shape looks different as plain data."""
        ...

    def takes(self, value: object) -> bool:
        """Whether a value is one of this shape, from outside: its parts are judged when it is flattened."""
        ...

    def flatten(self, value: Any, at: Place) -> Any:
        """The value as plain data. Raises PayloadError for what is not of this shape."""
        ...

    def takes_plain(self, data: object) -> bool:
        """Whether plain data looks like a value of this shape."""
        ...

    def rebuild(self, data: Any, path: str) -> Any:
        """The value of some plain data. Raises RefusedPayloadError."""
        ...


@dataclass(frozen=True, slots=True)
class Anything:
    """No annotation, or one that says nothing of dataclasses and enums: the codec alone judges it."""

    is_structured = False

    def takes(self, value: object) -> bool:  # noqa: ARG002 - anything
        return True

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:  # noqa: ARG002 - it stays as it is
        return value

    def rebuild(self, data: Any, path: str) -> Any:  # noqa: ARG002 - it stays as it is
        return data


@dataclass(frozen=True, slots=True)
class Plain:
    """A type that travels as it is."""

    kinds: tuple[type, ...]
    name: str

    is_structured = False

    def takes(self, value: object) -> bool:
        return isinstance(value, self.kinds)

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:
        return value if self.takes(value) else _unfit(value, self.name, at)

    def rebuild(self, data: Any, path: str) -> Any:
        return data if self.takes(data) else _refuse(data, self.name, path)


@dataclass(frozen=True, slots=True)
class Choice:
    """One of some plain values: `Literal`."""

    values: tuple[Any, ...]

    is_structured = False

    def takes(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:
        return value if self.takes(value) else _unfit(value, self._name, at)

    def rebuild(self, data: Any, path: str) -> Any:
        return data if self.takes(data) else _refuse(data, self._name, path)

    @property
    def _name(self) -> str:
        return f"one of {', '.join(map(repr, self.values))}"


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an enum."""

    kind: type[Enum]

    is_structured = True

    def takes(self, value: object) -> bool:
        return isinstance(value, self.kind)

    def flatten(self, value: Any, at: Place) -> Any:
        return enum_plain(value) if self.takes(value) else _unfit(value, self.kind.__name__, at)

    def takes_plain(self, data: object) -> bool:
        try:
            self._find(data)
        except (ValueError, KeyError, TypeError):
            return False
        return True

    def rebuild(self, data: Any, path: str) -> Any:
        try:
            return self._find(data)
        except (ValueError, KeyError, TypeError):
            return _refuse(data, f"a member of {self.kind.__name__}", path)

    def _find(self, data: Any) -> Enum:
        return self.kind(data) if _goes_by_value(self.kind) else self.kind[data]


@dataclass(frozen=True, slots=True)
class Record:
    """A dataclass. What its fields are is asked when it is needed: it may hold more of its own kind."""

    kind: type[Any]
    fields_of: Callable[[Any], Mapping[str, Shape]]

    is_structured = True

    def takes(self, value: object) -> bool:
        return type(value) is self.kind

    def takes_plain(self, data: object) -> bool:
        return type(data) is dict

    def flatten(self, value: Any, at: Place) -> Any:
        if not self.takes(value):
            _unfit(value, self.kind.__name__, at)
        return {
            name: shape.flatten(getattr(value, name), at.inside(f".{name}"))
            for name, shape in self.fields_of(self.kind).items()
        }

    def rebuild(self, data: Any, path: str) -> Any:
        if type(data) is not dict:
            _refuse(data, f"the fields of {self.kind.__name__}", path)
        fields = self.fields_of(self.kind)
        if unknown := sorted(data.keys() - fields.keys()):
            raise RefusedPayloadError(f"{path}: {self.kind.__name__} has no field {unknown[0]!r:.80}")
        values = {name: fields[name].rebuild(item, f"{path}.{name}") for name, item in data.items()}
        return self._made(values, path)

    def _made(self, values: Mapping[str, Any], path: str) -> Any:
        try:
            return self.kind(**values)
        except (TypeError, ValueError) as error:
            raise RefusedPayloadError(f"{path}: {self.kind.__name__}: {error!s:.200}") from error


@dataclass(frozen=True, slots=True)
class Items:
    """A list, or a tuple of any length; what comes is of the same type as what went."""

    kinds: tuple[type, ...]
    item: Shape

    @property
    def is_structured(self) -> bool:
        return self.item.is_structured

    def takes(self, value: object) -> bool:
        return type(value) in self.kinds

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:
        if not self.takes(value):
            _unfit(value, _names(self.kinds), at)
        return type(value)(self.item.flatten(item, at.inside(f"[{index}]")) for index, item in enumerate(value))

    def rebuild(self, data: Any, path: str) -> Any:
        if not self.takes(data):
            _refuse(data, _names(self.kinds), path)
        return type(data)(self.item.rebuild(item, f"{path}[{index}]") for index, item in enumerate(data))


@dataclass(frozen=True, slots=True)
class Bag:
    """A set. Flattened items may be maps, which no set can hold: they travel as a list, in the order of their bytes."""

    kinds: tuple[type, ...]
    item: Shape

    @property
    def is_structured(self) -> bool:
        return self.item.is_structured

    def takes(self, value: object) -> bool:
        return type(value) in self.kinds

    def takes_plain(self, data: object) -> bool:
        return type(data) is list if self.is_structured else self.takes(data)

    def flatten(self, value: Any, at: Place) -> Any:
        if not self.takes(value):
            _unfit(value, _names(self.kinds), at)
        items = [self.item.flatten(item, at.inside("[…]")) for item in value]
        return sorted(items, key=lambda item: encode(item, at.path)) if self.is_structured else value

    def rebuild(self, data: Any, path: str) -> Any:
        if not self.takes_plain(data):
            _refuse(data, _names(self.kinds), path)
        if not self.is_structured:
            return data
        return self.kinds[0](self.item.rebuild(item, f"{path}[…]") for item in data)


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple of so many items, each of its own shape."""

    items: tuple[Shape, ...]

    @property
    def is_structured(self) -> bool:
        return any(item.is_structured for item in self.items)

    def takes(self, value: object) -> bool:
        return type(value) is tuple and len(value) == len(self.items)

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:
        if not self.takes(value):
            _unfit(value, f"a tuple of {len(self.items)}", at)
        pairs = enumerate(zip(self.items, value, strict=True))
        return tuple(shape.flatten(item, at.inside(f"[{index}]")) for index, (shape, item) in pairs)

    def rebuild(self, data: Any, path: str) -> Any:
        if not self.takes(data):
            _refuse(data, f"a tuple of {len(self.items)}", path)
        pairs = enumerate(zip(self.items, data, strict=True))
        return tuple(shape.rebuild(item, f"{path}[{index}]") for index, (shape, item) in pairs)


@dataclass(frozen=True, slots=True)
class Map:
    """A dict. Its keys become text, or the codec refuses it."""

    key: Shape
    item: Shape

    @property
    def is_structured(self) -> bool:
        return self.key.is_structured or self.item.is_structured

    def takes(self, value: object) -> bool:
        return type(value) is dict

    takes_plain = takes

    def flatten(self, value: Any, at: Place) -> Any:
        if not self.takes(value):
            _unfit(value, "dict", at)
        return {
            _as_key(self.key.flatten(key, at.inside(" key")), key, at): self.item.flatten(
                item, at.inside(f".{_key_text(key)}")
            )
            for key, item in value.items()
        }

    def rebuild(self, data: Any, path: str) -> Any:
        if not self.takes(data):
            _refuse(data, "dict", path)
        return {
            self.key.rebuild(key, f"{path} key"): self.item.rebuild(item, f"{path}.{key}") for key, item in data.items()
        }


@dataclass(frozen=True, slots=True)
class Either:
    """A union. `named` are its dataclasses and enums by name, where the data alone would not tell which it was."""

    members: tuple[Shape, ...]
    named: Mapping[str, Shape]

    @property
    def is_structured(self) -> bool:
        return any(member.is_structured for member in self.members)

    def takes(self, value: object) -> bool:
        return any(member.takes(value) for member in self.members)

    def takes_plain(self, data: object) -> bool:
        return self._name_in(data) is not None or any(member.takes_plain(data) for member in self._unnamed())

    def flatten(self, value: Any, at: Place) -> Any:
        for name, member in self.named.items():
            if member.takes(value):
                return {name: member.flatten(value, at)}
        for member in self._unnamed():
            if member.takes(value):
                return member.flatten(value, at)
        return _unfit(value, told(self.members), at)

    def rebuild(self, data: Any, path: str) -> Any:
        name = self._name_in(data)
        if name is not None:
            return self.named[name].rebuild(data[name], path)
        for member in self._unnamed():
            if member.takes_plain(data):
                return member.rebuild(data, path)
        return _refuse(data, told(self.members), path)

    def _name_in(self, data: object) -> str | None:
        if type(data) is not dict or len(data) != 1:
            return None
        (name,) = data
        return name if name in self.named else None

    def _unnamed(self) -> Iterator[Shape]:
        return (member for member in self.members if member not in self.named.values())


ANYTHING = Anything()
NOTHING = Plain((type(None),), "None")


def told(shapes: tuple[Shape, ...]) -> str:
    """These shapes in words."""
    return " or ".join(map(_name, shapes))


def enum_plain(member: Enum) -> Any:
    """A member of an enum as plain data."""
    return member.value if _goes_by_value(type(member)) else member.name


def as_plain(value: Any, at: Place) -> Any:
    """A value with its dataclasses and enums as plain data, whatever its annotation: what becomes of a result."""
    if isinstance(value, Enum):
        return enum_plain(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: as_plain(getattr(value, name), at.inside(f".{name}")) for name in names}
    if type(value) is dict:
        return {
            _as_key(as_plain(key, at.inside(" key")), key, at): as_plain(item, at.inside(f".{_key_text(key)}"))
            for key, item in value.items()
        }
    if type(value) in (list, tuple, set, frozenset):
        items = [as_plain(item, at.inside(f"[{index}]")) for index, item in enumerate(value)]
        return _gathered(type(value), items, at)
    return value


def _gathered(kind: type[Any], items: list[Any], at: Place) -> Any:
    """Maps and lists, which no set can hold, make a list of it, in the order of their bytes."""
    try:
        return kind(items)
    except TypeError:
        return sorted(items, key=lambda item: encode(item, at.path))


def _as_key(plain: Any, key: object, at: Place) -> Any:
    """Plain data as a key, where it can be one; that it is text is the codec's business."""
    try:
        hash(plain)
    except TypeError:
        raise PayloadError(f"a {type(key).__name__} can't be a key; keys are text", path=at.path) from None
    return plain


@lru_cache(4096)
def _goes_by_value(kind: type[Enum]) -> bool:
    return all(type(member.value) in (str, int) for member in kind)


def _name(shape: Shape) -> str:
    match shape:
        case Member(kind) | Record(kind):
            return kind.__name__
        case Plain(_, name):
            return name
        case Items(kinds) | Bag(kinds):
            return _names(kinds)
        case _:
            return type(shape).__name__.lower()


def _names(kinds: tuple[type, ...]) -> str:
    return " or ".join(kind.__name__ for kind in kinds)


def _key_text(key: object) -> str:
    return str(enum_plain(key)) if isinstance(key, Enum) else str(key)


def _unfit(value: object, expected: str, at: Place) -> Any:
    raise PayloadError(f"expected {expected}, got a {type(value).__name__}", path=at.path)


def _refuse(data: object, expected: str, path: str) -> Any:
    raise RefusedPayloadError(f"{path}: expected {expected}, got {data!r:.80}")
