"""Combinations: the union, the intersection and the difference of what other triggers yield. They nest at will.

An instant is a point in time, so two triggers "agree" when both yield the same millisecond. The intersection is found
by leapfrog: whichever member is behind jumps to the one in front, until all stand on one instant. That is never slower
than the sparsest member, but two members may miss each other for ever, and no search can tell "never" from "not yet".
Therefore:

- intervals among themselves are exact: two grids meet in a grid (the Chinese remainder theorem) or nowhere;
- everything else is searched once when it is built, from 1970 on. What provably never meets is refused
  (`NeverFiresError`), and what did not meet within `SEARCH_STEPS` too (`TriggerTooSparseError`). A later search that
  exceeds the bound raises that error as well: None always means never again.

Combinations yield nothing before 1970. Counting the common instants of two members walks those of the sparser one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import reduce
from itertools import cycle
from typing import ClassVar

from scheduler.triggers.base import (
    END_MS,
    Clipped,
    Instant,
    Instants,
    Trigger,
    TriggerType,
    Unbound,
    clip,
    clipped,
    seconds_of,
    settle,
    show,
)
from scheduler.triggers.interval import Grid, IntervalTrigger
from shared.errors import NeverFiresError, TriggerError, TriggerTooSparseError

SEARCH_STEPS = 100_000
"""How many jumps one search may take."""

DEEPEST = 32
"""How deep combinations may nest."""

MOST_LEAVES = 256
"""How many triggers a combination may be made of, all levels counted."""


class CompoundLogic(Enum):
    """How the members of a compound go together."""

    AND = "and"
    OR = "or"
    MINUS = "minus"


@dataclass(frozen=True, slots=True)
class Union:
    """The instants that any member yields."""

    members: tuple[Instants, ...]

    def next_ms(self, after: int) -> int | None:
        return min((at for member in self.members if (at := member.next_ms(after)) is not None), default=None)

    def prev_ms(self, before: int) -> int | None:
        return max((at for member in self.members if (at := member.prev_ms(before)) is not None), default=None)

    def count_ms(self, after: int, until: int) -> int:
        first, *others = self.members
        if not others:
            return first.count_ms(after, until)
        rest = others[0] if len(others) == 1 else Union(tuple(others))
        return first.count_ms(after, until) + rest.count_ms(after, until) - count_common(first, rest, after, until)


@dataclass(frozen=True, slots=True)
class Intersection:
    """The instants that all members yield."""

    members: tuple[Instants, ...]

    def next_ms(self, after: int) -> int | None:
        return self._meet(after + 1, lambda member, at: member.next_ms(at - 1))

    def prev_ms(self, before: int) -> int | None:
        return self._meet(before - 1, lambda member, at: member.prev_ms(at + 1))

    def count_ms(self, after: int, until: int) -> int:
        return sum(1 for _ in _meetings(self.members, after, until))

    def _meet(self, start: int, seek: Callable[[Instants, int], int | None]) -> int | None:
        """Lets the members jump to each other's position, from `start`, until all agree."""
        at, agreed = start, 0
        for step in range(SEARCH_STEPS):
            found = seek(self.members[step % len(self.members)], at)
            if found is None:
                return None
            agreed = agreed + 1 if found == at else 1
            at = found
            if agreed == len(self.members):
                return at
        raise too_sparse()


@dataclass(frozen=True, slots=True)
class Difference:
    """The instants of `kept` that `removed` does not yield."""

    kept: Instants
    removed: Instants

    def next_ms(self, after: int) -> int | None:
        return self._first_left(after, lambda instants, at: instants.next_ms(at))

    def prev_ms(self, before: int) -> int | None:
        return self._first_left(before, lambda instants, at: instants.prev_ms(at))

    def count_ms(self, after: int, until: int) -> int:
        return self.kept.count_ms(after, until) - count_common(self.kept, self.removed, after, until)

    def _first_left(self, start: int, seek: Callable[[Instants, int], int | None]) -> int | None:
        at = start
        for _ in range(SEARCH_STEPS):
            found = seek(self.kept, at)
            if found is None or self.removed.next_ms(found - 1) != found:
                return found
            at = found
        raise too_sparse()


@dataclass(frozen=True, slots=True, init=False)
class CompoundTrigger(Trigger):
    """Fires when any member does (OR), when all do at the same instant (AND), or when the first does and no other
    (MINUS).

    `start` is inclusive, `end` exclusive. Members must not have jitter of their own: it belongs to the schedule. Raises
    `TriggerError`, `NeverFiresError`, `TriggerTooSparseError`.
    """

    trigger_type: ClassVar[TriggerType] = TriggerType.COMPOUND

    triggers: tuple[Trigger, ...]
    logic: CompoundLogic
    start: float | None
    end: float | None
    instants: Instants = field(repr=False, compare=False)

    def __init__(
        self,
        triggers: Iterable[Trigger],
        logic: CompoundLogic = CompoundLogic.OR,
        start: Instant | None = None,
        end: Instant | None = None,
    ) -> None:
        members = tuple(triggers)
        _check_members(members, logic)
        settle(self, triggers=members, logic=logic, start=seconds_of(start), end=seconds_of(end))
        settle(self, instants=clipped(_combined([member.instants for member in members], self.logic), start, end))
        check_fires(self)

    def parts(self) -> tuple[Trigger, ...]:
        return self.triggers

    @property
    def timezone(self) -> str | None:
        """The zone that all members share; None if they differ."""
        zones = {member.timezone for member in self.triggers}
        return zones.pop() if len(zones) == 1 else None

    def bound_to(self, schedule_id: str) -> CompoundTrigger:
        bound = tuple(member.bound_to(schedule_id) for member in self.triggers)
        if all(new is old for new, old in zip(bound, self.triggers, strict=True)):
            return self
        return CompoundTrigger(bound, self.logic, self.start, self.end)

    def describe(self) -> str:
        sign = {CompoundLogic.AND: " & ", CompoundLogic.OR: " | ", CompoundLogic.MINUS: " - "}[self.logic]
        return sign.join(
            f"({member.describe()})" if isinstance(member, CompoundTrigger) else member.describe()
            for member in self.triggers
        )


def check_fires(trigger: Trigger) -> None:
    """Searches once for the first instant: raises `NeverFiresError` or `TriggerTooSparseError`, naming the trigger."""
    if isinstance(trigger.instants, Unbound):
        return
    try:
        first = trigger.next_ms(-1)
    except TriggerTooSparseError as error:
        raise TriggerTooSparseError(f"{show(trigger.describe())}: {error}") from None
    if first is None:
        raise NeverFiresError(f"{show(trigger.describe())} never fires: no instant is left between 1970 and 9999")


def _check_members(members: tuple[Trigger, ...], logic: CompoundLogic) -> None:
    if not isinstance(logic, CompoundLogic):
        raise TriggerError(f"logic: found {show(logic)}, expected a CompoundLogic")
    if not members:
        raise TriggerError("a compound trigger needs at least one member")
    for member in members:
        if not isinstance(member, Trigger):
            raise TriggerError(f"a member of a compound is a trigger; found {show(member)}")
        if isinstance(member, IntervalTrigger) and member.jitter:
            raise TriggerError(
                "jitter belongs to the schedule, not to a member of a compound: its instants would drift apart"
            )
    check_size(members)


def check_size(members: Iterable[Trigger]) -> None:
    """Raises `TriggerError` if triggers that are to be combined nest too deep or are too many in all."""
    leaves, depth = _extent(members)
    if depth > DEEPEST or leaves > MOST_LEAVES:
        raise TriggerError(
            f"a combination is at most {DEEPEST} deep, of at most {MOST_LEAVES} triggers; found {depth} and {leaves}"
        )


def _extent(members: Iterable[Trigger]) -> tuple[int, int]:
    """How many triggers there are in all, and how deep they nest."""
    inner = [_extent(member.parts()) if member.parts() else (1, 0) for member in members]
    return sum(leaves for leaves, _ in inner), 1 + max(depth for _, depth in inner)


def _combined(members: list[Instants], logic: CompoundLogic) -> Instants:
    unbound = next((member for member in members if isinstance(member, Unbound)), None)
    if unbound is not None:
        return unbound
    if logic is CompoundLogic.AND:
        return clip(_intersection(members), 0, END_MS)
    first, *others = members
    if not others:
        return clip(first, 0, END_MS)
    if logic is CompoundLogic.OR:
        return Clipped(Union(tuple(members)), 0, END_MS)
    return Clipped(Difference(first, others[0] if len(others) == 1 else Union(tuple(others))), 0, END_MS)


def count_common(one: Instants, other: Instants, after: int, until: int) -> int:
    """How many instants in (after, until] both yield: at once for two grids, else by walking the sparser one."""
    if _grid_of(one) is None or _grid_of(other) is None:
        return sum(1 for _ in _meetings((one, other), after, until))
    try:
        return _intersection([one, other]).count_ms(after, until)
    except NeverFiresError:
        return 0


def _meetings(members: tuple[Instants, ...], after: int, until: int) -> Iterator[int]:
    """The instants in (after, until] that all members yield. The end bounds the search, not a number of steps."""
    at, agreed = after + 1, 0
    for member in cycle(members):
        found = member.next_ms(at - 1)
        if found is None or found > until:
            return
        agreed = agreed + 1 if found == at else 1
        at = found
        if agreed >= len(members):
            yield at
            at, agreed = at + 1, 0


def _intersection(members: list[Instants]) -> Instants:
    """The common instants, with all grids among the members made one."""
    others = [member for member in members if _grid_of(member) is None]
    clips = [member for member in members if isinstance(member, Clipped) and _grid_of(member)]
    grids = [grid for member in members if (grid := _grid_of(member))]
    if grids:
        first, limit = max(each.first for each in clips), min(each.limit for each in clips)
        others.append(Clipped(reduce(_common_grid, grids), first, limit))
    return others[0] if len(others) == 1 else Intersection(tuple(others))


def _grid_of(member: Instants) -> Grid | None:
    return member.inner if isinstance(member, Clipped) and isinstance(member.inner, Grid) else None


def _common_grid(one: Grid, other: Grid) -> Grid:
    shared = math.gcd(one.period, other.period)
    apart = (other.anchor - one.anchor) % shared
    if apart:
        raise NeverFiresError(
            f"intervals of {one.period / 1000:g} s and {other.period / 1000:g} s from these anchors never meet: "
            f"they stay {apart / 1000:g} s apart"
        )
    # one.anchor + n * one.period is on the other too: n solves a congruence modulo `modulus`.
    modulus = other.period // shared
    n = (other.anchor - one.anchor) // shared * pow(one.period // shared, -1, modulus) % modulus
    return Grid(one.anchor + n * one.period, one.period * modulus)


def too_sparse() -> TriggerTooSparseError:
    """The error of a search that took all its steps."""
    return TriggerTooSparseError(
        f"no instant was found in {SEARCH_STEPS:,} steps: the members meet too rarely, or never; "
        "intersect triggers that share instants, such as crons of one zone"
    )
