"""Which names a worker may run. Importing an app fills this registry; nothing else does, and no payload can.

A name that two different classes claim is an error at import, naming both places: which of them ran would depend on
the order of imports.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from shared.errors import AlreadyExistsError, UnknownJobError

Entry = TypeVar("Entry", bound=Callable[..., Any])


class Registry(Generic[Entry]):
    """Names to the objects registered under them."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._entries: dict[str, Entry] = {}

    def register(self, name: str, entry: Entry) -> None:
        """Take a name. The same definition again (a module imported anew) replaces the old one; another is a clash."""
        held = self._entries.get(name)
        if held is not None and _place(held) != _place(entry):
            raise AlreadyExistsError(f"two {self._what}s are named {name!r}: {_place(held)} and {_place(entry)}")
        self._entries[name] = entry

    def find(self, name: str) -> Entry:
        """What is registered under a name. Raises UnknownJobError with the nearest names."""
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownJobError(f"no {self._what} is registered as {name!r:.200}{self._hint(name)}") from None

    def all(self) -> Mapping[str, Entry]:
        """A view of all entries by name."""
        return MappingProxyType(self._entries)

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def _hint(self, name: str) -> str:
        near = difflib.get_close_matches(name[:200], self._entries, n=1)
        return f"; did you mean {near[0]!r}?" if near else ""


def _place(entry: Callable[..., Any]) -> str:
    """Where an entry was defined: its function's place for a job made of a function."""
    origin = getattr(entry, "origin", None) or getattr(entry, "func", None) or entry
    return f"{getattr(origin, '__module__', '')}.{getattr(origin, '__qualname__', type(origin).__qualname__)}"


jobs: Registry[type[Any]] = Registry("job")
middleware: Registry[Callable[..., Any]] = Registry("middleware")
