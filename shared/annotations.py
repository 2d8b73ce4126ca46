"""What annotations say: hints of functions and classes into shapes.

An annotation that can't be resolved here, such as a name imported for type checkers alone, says nothing: the value then
travels only if it is plain. Hints are read when a job is first sent or run, never at import, so that classes may stand
in any order.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from enum import Enum
from functools import lru_cache
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints

from shared.errors import ConfigurationError
from shared.shapes import (
    ANYTHING,
    NOTHING,
    Anything,
    Bag,
    Choice,
    Either,
    Items,
    Map,
    Member,
    Plain,
    Record,
    Row,
    Shape,
    told,
)

_MAPS = (dict, Mapping, MutableMapping)
_ITEMS: dict[Any, tuple[type, ...]] = {
    list: (list,),
    tuple: (tuple,),
    MutableSequence: (list,),
    Sequence: (list, tuple),
}
_BAGS: dict[Any, tuple[type, ...]] = {set: (set,), frozenset: (frozenset,)}
_NUMBERS: dict[Any, tuple[type, ...]] = {float: (float, int)}
_HOMES = ("builtins", "datetime", "decimal", "uuid")
"""Where the plain types that travel are defined."""

_UNRESOLVED = (NameError, TypeError, AttributeError, SyntaxError)


def shape_of(hint: Any) -> Shape:
    """What an annotation says. Raises ConfigurationError for one whose values could not be told apart again."""
    origin = get_origin(hint)
    if origin in (Annotated, Final):
        return shape_of(get_args(hint)[0])
    if origin is Literal:
        return _choice(get_args(hint))
    if origin in (Union, types.UnionType):
        return _either(tuple(shape_of(one) for one in get_args(hint)))
    if isinstance(hint, NewType):
        return shape_of(hint.__supertype__)
    if hasattr(hint, "__value__"):  # an alias by Python 3.12's `type`
        return shape_of(hint.__value__)
    return _container(origin or hint, get_args(hint)) or _of_class(origin or hint)


def hints_of(owner: Any) -> Mapping[str, Any]:
    """The annotations of a function or class, as types."""
    try:
        return get_type_hints(owner, include_extras=True)
    except _UNRESOLVED:
        found = {name: _resolved(owner, name, hint) for name, hint in getattr(owner, "__annotations__", {}).items()}
        return {name: hint for name, hint in found.items() if hint is not None}


@lru_cache(4096)
def fields_of(kind: type[Any]) -> Mapping[str, Shape]:
    """The fields that a dataclass is made of. Raises ConfigurationError for one that can't be made of its fields."""
    hints = hints_of(kind)
    names = [field.name for field in dataclasses.fields(kind) if field.init]
    for parameter in inspect.signature(kind).parameters.values():
        if parameter.default is parameter.empty and parameter.name not in names:
            raise ConfigurationError(
                f"{kind.__name__} can't travel: it is made with {parameter.name!r}, which is none of its fields"
            )
    return {name: shape_of(hints.get(name, Any)) for name in names}


def _resolved(owner: Any, name: str, hint: Any) -> Any:
    """One annotation by itself, None when it can't be resolved: one spoils no other."""
    names = getattr(owner, "__globals__", None) or vars(sys.modules[owner.__module__])
    alone = types.FunctionType(_resolved.__code__, names)
    alone.__annotations__ = {name: hint}
    try:
        return get_type_hints(alone, include_extras=True)[name]
    except _UNRESOLVED:
        return None


def _container(kind: Any, args: tuple[Any, ...]) -> Shape | None:
    if kind is tuple and args and args[-1] is not Ellipsis:
        return Row(tuple(shape_of(arg) for arg in args))
    if not isinstance(kind, type) or not (kind in _MAPS or kind in _ITEMS or kind in _BAGS):
        return None
    first = shape_of(args[0]) if args else ANYTHING
    if kind in _MAPS:
        return Map(first, shape_of(args[1]) if args else ANYTHING)
    if kind in _ITEMS:
        return Items(_ITEMS[kind], first)
    return Bag(_BAGS[kind], first)


def _of_class(kind: Any) -> Shape:
    if kind is None or kind is type(None):
        return NOTHING
    if not isinstance(kind, type) or kind is object:
        return ANYTHING
    if issubclass(kind, Enum):
        return Member(kind)
    if dataclasses.is_dataclass(kind):
        return Record(kind, fields_of)
    return Plain(_NUMBERS.get(kind, (kind,)), kind.__name__) if kind.__module__ in _HOMES else ANYTHING


def _choice(values: tuple[Any, ...]) -> Shape:
    kinds = sorted({type(value) for value in values}, key=lambda kind: kind.__name__)
    if any(issubclass(kind, Enum) for kind in kinds):
        return _either(tuple(_of_class(kind) for kind in kinds))
    return Choice(values)


def _either(members: tuple[Shape, ...]) -> Shape:
    """A union. One type beside None needs no names, and neither do plain types."""
    others = [member for member in members if member != NOTHING]
    if len(others) == 1 or not any(member.is_structured for member in others):
        return Either(members, {})
    named = {member.kind.__name__: member for member in others if isinstance(member, Record | Member)}
    rest = [member for member in others if not isinstance(member, Record | Member)]
    if len(named) + len(rest) < len(others) or not _can_be_told_apart(named, rest):
        raise ConfigurationError(
            f"{told(tuple(others))}: a worker could not tell which it was. Let the dataclasses have names of their "
            "own, and put a dict or list of them into a dataclass"
        )
    return Either(members, named)


def _can_be_told_apart(named: Mapping[str, Shape], rest: Sequence[Shape]) -> bool:
    vague = [member for member in rest if member.is_structured or isinstance(member, Anything)]
    if len(vague) > 1 or (named and any(isinstance(member, Map | Anything) for member in rest)):
        return False
    return not any(_containers(one) & _containers(other) for one in vague for other in rest if other is not one)


def _containers(shape: Shape) -> set[type]:
    """The types of which a value of a shape is, before or after it was flattened."""
    match shape:
        case Items(kinds):
            return set(kinds)
        case Bag(kinds):
            return {*kinds, list} if shape.is_structured else set(kinds)
        case Row():
            return {tuple}
        case Map():
            return {dict}
        case _:
            return set()
