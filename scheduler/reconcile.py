"""Declared against stored: what has to change so that Redis holds what the app declares. Pure.

Declared schedules are added or changed; stored ones that an app once declared and no longer does are removed; those
that were made at run time are left alone. A set that is empty or sharply smaller than the stored one is refused: it is
more often a broken deployment than a wish.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

SHARP = 3
"""From so many removals on, more of them than schedules that stay are no wish but an accident."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """Ids by what has to happen to them."""

    add: tuple[str, ...]
    change: tuple[str, ...]
    remove: tuple[str, ...]
    same: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not (self.add or self.change or self.remove)

    def refusal(self) -> str | None:
        """Why this should not be applied unasked, or None when nothing speaks against it."""
        kept = len(self.change) + len(self.same)
        if self.remove and not kept and not self.add:
            return f"the app declares no schedule, and {len(self.remove)} stored ones would go"
        if len(self.remove) >= SHARP and len(self.remove) > kept + len(self.add):
            return f"{len(self.remove)} of {len(self.remove) + kept} stored schedules would go"
        return None


def diff(declared: Mapping[str, str], stored: Mapping[str, str], owned: Collection[str]) -> Diff:
    """What turns what is stored into what is declared: digests of definitions, by id.

    `stored` are those that lie under a declared id, "" for none; `owned` are the ids that an app has declared before.
    """
    there = sorted(name for name in declared if stored.get(name))
    return Diff(
        add=tuple(sorted(name for name in declared if not stored.get(name))),
        change=tuple(name for name in there if stored[name] != declared[name]),
        remove=tuple(sorted(name for name in owned if name not in declared)),
        same=tuple(name for name in there if stored[name] == declared[name]),
    )


def is_older(ours: str | None, theirs: str | None) -> bool:
    """Whether the version `ours` is older than `theirs`.

    Versions are numbers with dots, with or without a `v` before and a pre-release after a `-` (1.2.0-rc1 comes before
    1.2.0). What can't be compared, such as commit hashes, is not older: there the last start wins.
    """
    one, other = _rank(ours), _rank(theirs)
    return one is not None and other is not None and one < other


def _rank(version: str | None) -> tuple[tuple[int, ...], bool, str] | None:
    found = _VERSION.fullmatch(version or "")
    if not found:
        return None
    numbers, before = found.groups()
    parts = [int(part) for part in re.split(r"[.-]", numbers)]
    while parts and parts[-1] == 0:  # 1.2 and 1.2.0 are one version
        parts.pop()
    return tuple(parts), before is None, before or ""


_VERSION = re.compile(r"v?(\d{1,18}(?:[.-]\d{1,18})*)(?:-([A-Za-z][\w.]*))?")
