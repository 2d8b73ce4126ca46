"""A job's arguments against the parameters of its `handle`: checked and flattened where they are sent, rebuilt where
they run. The annotations are `handle`'s own, or those of the function that the job was made of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from shared.annotations import hints_of, shape_of
from shared.errors import PayloadError
from shared.shapes import ANYTHING, Place, Shape

Flat = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """What a `handle` takes. `positional` are the names of its positional parameters, in order."""

    signature: inspect.Signature
    shapes: Mapping[str, Shape]
    positional: tuple[str, ...]
    named: frozenset[str]
    """The names of those that may be given by name."""
    rest: str | None
    """The name of `*args`, None without one."""
    others: str | None
    """The name of `**kwargs`, None without one."""
    least: int | None
    """How many positional arguments alone are enough; None where some have to be named."""

    def check(self, args: Sequence[Any], kwargs: Mapping[str, Any], name: str) -> None:
        """Raises PayloadError that names what is missing, unexpected or too many."""
        if not kwargs and self.least is not None and self.least <= len(args) <= len(self.positional):
            return  # bind would say the same, and takes ten times as long
        try:
            self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise PayloadError(f"{error}", path=name) from None

    def flatten(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Flat:
        """The arguments as plain data. Raises PayloadError with the path of what is of another type than annotated."""
        if not self.shapes:
            return tuple(args), dict(kwargs)
        start = Place("")  # what it counts is counted over all arguments
        flat = (self._of_position(n).flatten(arg, start.inside(self.path(n))) for n, arg in enumerate(args))
        named = {name: self._of_name(name).flatten(arg, start.inside(f"kwargs.{name}")) for name, arg in kwargs.items()}
        return tuple(flat), named

    def rebuild(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Flat:
        """The arguments that were flattened. Raises RefusedPayloadError for what is no such thing."""
        if not self.shapes:
            return tuple(args), dict(kwargs)
        built = (self._of_position(n).rebuild(arg, self.path(n)) for n, arg in enumerate(args))
        named = {name: self._of_name(name).rebuild(arg, f"kwargs.{name}") for name, arg in kwargs.items()}
        return tuple(built), named

    def path(self, position: int) -> str:
        """Where the argument at a position stands, by its parameter's name."""
        if position < len(self.positional):
            return f"args.{self.positional[position]}"
        return f"args.{self.rest}[{position - len(self.positional)}]"

    def _of_position(self, position: int) -> Shape:
        name = self.positional[position] if position < len(self.positional) else self.rest
        return self.shapes.get(name or "", ANYTHING)

    def _of_name(self, name: str) -> Shape:
        return self.shapes.get(name if name in self.named else self.others or "", ANYTHING)


def parameters_of(job: type[Any]) -> Parameters:
    """The parameters of a job's `handle`, read once."""
    return _parameters(job.handle, getattr(job, "origin", None) or job.handle)


@lru_cache(4096)
def _parameters(handle: Callable[..., Any], origin: Callable[..., Any]) -> Parameters:
    this, *everything = inspect.signature(handle).parameters.values()
    if this.kind is this.VAR_POSITIONAL:
        everything.insert(0, this)
    hints = hints_of(inspect.unwrap(origin))
    shapes = {item.name: shape_of(hints.get(item.name, Any)) for item in everything}
    return Parameters(
        signature=inspect.Signature(everything),
        shapes={name: shape for name, shape in shapes.items() if shape.is_structured},
        positional=tuple(i.name for i in everything if i.kind in (i.POSITIONAL_ONLY, i.POSITIONAL_OR_KEYWORD)),
        named=frozenset(i.name for i in everything if i.kind in (i.KEYWORD_ONLY, i.POSITIONAL_OR_KEYWORD)),
        rest=next((i.name for i in everything if i.kind is i.VAR_POSITIONAL), None),
        least=_least(everything),
        others=next((i.name for i in everything if i.kind is i.VAR_KEYWORD), None),
    )


def _least(parameters: Sequence[inspect.Parameter]) -> int | None:
    needed = [item for item in parameters if item.default is item.empty]
    named = [item for item in needed if item.kind is item.KEYWORD_ONLY]
    return None if named else sum(item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD) for item in needed)
