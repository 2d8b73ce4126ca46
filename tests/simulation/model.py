"""A model of commit and lease, small enough to try every order of steps: two beats, three nominal times.

    store   a clock that reaches nominal times 1, 2, 3; the cursor; dedupe keys; how often each time was pushed
    beat    its place in the turn, the lease it believes in, the cursor it has read, the messages it has yet to send,
            and (for one wrong design) what it remembers
    line    messages that are still under way: one may be carried out at any later moment, and more than once

A lease is compared for equality alone, so of all terms two need telling apart: the one in force, and any older one.
When a beat takes the lease, every other belief and every message becomes older. That keeps the model finite without a
bound on how often the lease changes hands.

Steps: the clock goes on; a beat takes the lease (whenever the other does not move, which may be at any time), reads,
plans, sends a message; the message is carried out and answered, carried out with its reply lost, or lost for now; a
beat crashes. A freeze needs no step of its own: the others just go on. A wake-up with an old lease needs none either:
no step makes a beat doubt its lease but a refused commit, so trust is longer than any real one.

A design says which messages a plan comes to. Of every state that can be reached it is asked: was a time pushed twice;
has the cursor passed one that never was; did a message under an older lease have an effect; and can all three times
still be pushed from here? The last is what "nothing is lost" means for a key or a memory that says "done" too early.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

LAST = 3
UNDER_WAY = 2
NONE, OLDER, IN_FORCE = 0, 1, 2
FAULTS = frozenset({"crash", "lost reply", "late"})
Message: TypeAlias = tuple[str, int, int, int]
"""What is asked of the store: its name, the sender's lease, and two numbers."""


@dataclass(frozen=True, slots=True)
class Beat:
    place: str = "idle"
    lease: int = NONE
    base: int = 0
    until: int = 0
    left: tuple[Message, ...] = ()
    memory: int = -1


@dataclass(frozen=True, slots=True)
class State:
    now: int = 0
    cursor: int = 0
    keys: frozenset[int] = frozenset()
    pushed: tuple[int, ...] = (0,) * LAST
    line: frozenset[Message] = frozenset()
    beats: tuple[Beat, Beat] = (Beat(), Beat())
    wrong: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """Messages for a plan, and what the store makes of each: its new state, and by how many messages to go on.

    0 is "fenced": the sender gives up its lease. Where nothing is meant to be, no commit is wrong for its lease.
    """

    messages: Callable[[Beat], tuple[Message, ...]]
    carry_out: Callable[[State, Message], tuple[State, int]]
    remembers: bool = False
    is_fenced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What exploring came to: how many states there are, what is wrong, and the shortest way there."""

    states: int
    wrong: str
    steps: tuple[str, ...] = ()


def explore(design: Design, faults: frozenset[str] = FAULTS) -> Finding:
    """Every state that can be reached with such faults, breadth first; the first that is wrong ends it."""
    leading = Beat(lease=IN_FORCE, memory=0 if design.remembers else -1)
    start = State(beats=(leading, Beat()))
    came: dict[State, tuple[State, str] | None] = {start: None}
    before: dict[State, list[State]] = {}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        for step, after in _steps(design, state, faults):
            before.setdefault(after, []).append(state)
            if after not in came:
                came[after] = (state, step)
                queue.append(after)
            if after.wrong:
                return Finding(states=len(came), wrong=after.wrong, steps=_way(came, after))
    lost = _cannot_end_well(came, before)
    return Finding(states=len(came), wrong="lost" if lost else "", steps=_way(came, lost) if lost else ())


def _way(came: dict[State, tuple[State, str] | None], state: State) -> tuple[str, ...]:
    steps: list[str] = []
    while link := came[state]:
        state, step = link
        steps.append(step)
    return tuple(reversed(steps))


def _cannot_end_well(came: dict[State, tuple[State, str] | None], before: dict[State, list[State]]) -> State | None:
    """The first state from which no order of steps pushes all times; None when there is no such state."""
    good = {state for state in came if all(state.pushed)}
    queue = deque(good)
    while queue:
        for earlier in before.get(queue.popleft(), ()):
            if earlier not in good:
                good.add(earlier)
                queue.append(earlier)
    return next((state for state in came if state not in good), None)


def _steps(design: Design, state: State, faults: frozenset[str]) -> Iterator[tuple[str, State]]:
    if state.now < LAST:
        yield f"the clock reaches {state.now + 1}", replace(state, now=state.now + 1)
    for message in sorted(state.line):
        yield f"{_told(message)} arrives late", _carried_out(design, state, message)[0]
    for index in (0, 1):
        for step, after in _beat_steps(design, state, index, faults):
            yield f"beat {'ab'[index]} {step}", after


def _beat_steps(design: Design, state: State, index: int, faults: frozenset[str]) -> Iterator[tuple[str, State]]:
    beat = state.beats[index]
    if beat != Beat() and "crash" in faults:
        yield "crashes", _with(state, index, Beat())
    if beat.place == "idle" and beat.lease != IN_FORCE:
        taken = Beat(lease=IN_FORCE, memory=state.now if design.remembers else -1)
        yield "takes the lease", _with(_succeeded(state), index, taken)
    if beat.place == "idle" and beat.lease:
        base = beat.memory if design.remembers else state.cursor
        yield f"reads {base}", _with(state, index, replace(beat, place="read", base=base))
    if beat.place == "read" and state.now > beat.base:
        planned = replace(beat, place="sending", until=state.now)
        yield f"plans up to {state.now}", _with(state, index, replace(planned, left=design.messages(planned)))
    if beat.place == "read" and state.now <= beat.base:
        yield "has nothing to do", _with(state, index, _idle(beat))
    if beat.place == "sending":
        yield from _sending(design, state, index, faults)


def _sending(design: Design, state: State, index: int, faults: frozenset[str]) -> Iterator[tuple[str, State]]:
    """The message at hand is carried out and answered, or is carried out, or is not yet."""
    beat = state.beats[index]
    message = beat.left[0]
    after, steps = _carried_out(design, state, message)
    yield f"sends {_told(message)}", _with(after, index, _answered(beat, steps))
    if "lost reply" in faults:
        yield f"sends {_told(message)}, gets no reply", _with(after, index, _idle(beat))
    if "late" in faults and (message in state.line or len(state.line) < UNDER_WAY):
        under_way = replace(state, line=state.line | {message})
        yield f"sends {_told(message)}, which is under way", _with(under_way, index, _idle(beat))


def _told(message: Message) -> str:
    word, _, one, other = message
    return f"{word}({one}, {other})"


def _succeeded(state: State) -> State:
    """Another lease is about to be in force."""
    beats = (_aged(state.beats[0]), _aged(state.beats[1]))
    return replace(state, beats=beats, line=frozenset(map(_aged_message, state.line)))


def _aged(beat: Beat) -> Beat:
    return replace(beat, lease=min(beat.lease, OLDER), left=tuple(map(_aged_message, beat.left)))


def _aged_message(message: Message) -> Message:
    return (message[0], OLDER, *message[2:])


def _answered(beat: Beat, steps: int) -> Beat:
    if not steps:
        return Beat()
    if left := beat.left[steps:]:
        return replace(beat, left=left)
    return replace(_idle(beat), memory=beat.until if beat.memory >= 0 else -1)


def _idle(beat: Beat) -> Beat:
    return Beat(lease=beat.lease, memory=beat.memory)


def _with(state: State, index: int, beat: Beat) -> State:
    beats = (beat, state.beats[1]) if index == 0 else (state.beats[0], beat)
    return replace(state, beats=beats)


def _carried_out(design: Design, state: State, message: Message) -> tuple[State, int]:
    after, steps = design.carry_out(state, message)
    return replace(after, wrong=_wrong(design, state, after, message)), steps


def _wrong(design: Design, before: State, after: State, message: Message) -> str:
    if max(after.pushed) > 1:
        return "doubled"
    if not all(after.pushed[: after.cursor]):
        return "lost"
    has_effect = (after.cursor, after.pushed) != (before.cursor, before.pushed)
    return "accepted from an older lease" if has_effect and message[1] < IN_FORCE and design.is_fenced else ""


def push(state: State, nominals: range) -> State:
    """Push the job of each of these nominal times once more."""
    return replace(state, pushed=tuple(n + (at in nominals) for at, n in enumerate(state.pushed, 1)))
