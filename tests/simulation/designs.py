"""Designs for the model: the product's, and what others do or what is left when one of its guards is taken away."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.model import IN_FORCE, Beat, Design, Message, State, push


def one_commit(beat: Beat) -> tuple[Message, ...]:
    """Everything in one step."""
    return (("commit", beat.lease, beat.base, beat.until),)


def commit(state: State, message: Message) -> tuple[State, int]:
    """The product's: the lease and the cursor are compared, and the push moves the cursor."""
    return commit_unfenced(state, message) if message[1] == IN_FORCE else (state, 0)


def commit_unfenced(state: State, message: Message) -> tuple[State, int]:
    """Whoever sends it: the cursor alone is compared."""
    _, _, base, until = message
    if state.cursor != base:
        return state, 1
    return replace(push(state, range(base + 1, until + 1)), cursor=until), 1


def commit_without_cursor(state: State, message: Message) -> tuple[State, int]:
    """The lock alone guards it."""
    _, lease, base, until = message
    return (push(state, range(base + 1, until + 1)), 1) if lease == IN_FORCE else (state, 0)


def commit_uncompared(state: State, message: Message) -> tuple[State, int]:
    """The lock guards it; the cursor is moved and not compared."""
    after, steps = commit_without_cursor(state, message)
    return (replace(after, cursor=max(state.cursor, message[3])) if steps else after), steps


def key_then_push(beat: Beat) -> tuple[Message, ...]:
    each = [(word, beat.lease, at, at) for at in range(beat.base + 1, beat.until + 1) for word in ("key", "push")]
    return (*each, ("cursor", beat.lease, beat.until, beat.until))


def push_then_cursor(beat: Beat) -> tuple[Message, ...]:
    return tuple(message for message in key_then_push(beat) if message[0] != "key")


def step_by_step(state: State, message: Message) -> tuple[State, int]:
    """One step of a commit that has several. Each is fenced, which does not help. A key found skips the push."""
    word, lease, at, _ = message
    if lease != IN_FORCE:
        return state, 0
    match word:
        case "key":
            return replace(state, keys=state.keys | {at}), 2 if at in state.keys else 1
        case "cursor":
            return replace(state, cursor=max(state.cursor, at)), 1
        case _:
            return push(state, range(at, at + 1)), 1


PRODUCT = Design(messages=one_commit, carry_out=commit)
KEY_FIRST = Design(messages=key_then_push, carry_out=step_by_step)
ENQUEUE_FIRST = Design(messages=push_then_cursor, carry_out=step_by_step)
LOCK_ONLY = Design(messages=one_commit, carry_out=commit_without_cursor, remembers=True)
UNCOMPARED = Design(messages=one_commit, carry_out=commit_uncompared)
UNFENCED = Design(messages=one_commit, carry_out=commit_unfenced)
CURSOR_ALONE = replace(UNFENCED, is_fenced=False)
