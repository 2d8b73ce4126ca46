"""Negative controls: the same schedules, the same kills, the same checker, and a committer that is wrong must fail.

A harness that cannot fail proves nothing. The last test is the control of the controls: with the product's own commit
in the same place nothing is found.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.chaos.arena import Arena
from tests.chaos.checker import Verdict
from tests.chaos.nemesis import kill_leaders_at_work

WRONG = str(Path(__file__).with_name("wrong.py"))


def killed(arena: Arena, rng: random.Random, committer: str) -> Verdict:
    """What the checker says of a committer whose beats are killed again and again."""
    arena.program = (WRONG, committer)
    arena.declare(count=3, period=0.2)
    arena.start(2)
    kill_leaders_at_work(arena, rng, 6)
    arena.goes_on()
    return arena.judge()


@pytest.mark.fault("F61")
def test_a_dedupe_key_that_is_set_first_loses(arena: Arena, rng: random.Random) -> None:
    verdict = killed(arena, rng, "key-first")
    assert verdict.lost
    assert any(line.startswith("I2") for line in verdict.violations)


@pytest.mark.fault("F61")
def test_a_job_that_is_pushed_first_doubles(arena: Arena, rng: random.Random) -> None:
    verdict = killed(arena, rng, "enqueue-first")
    assert verdict.doubled
    assert any(line.startswith("I1") for line in verdict.violations)


@pytest.mark.fault("F61")
def test_a_lock_without_a_cursor_loses(arena: Arena, rng: random.Random) -> None:
    assert killed(arena, rng, "lock-only").lost


@pytest.mark.fault("F61")
def test_the_right_commit_in_the_same_place_passes(arena: Arena, rng: random.Random) -> None:
    verdict = killed(arena, rng, "right")
    assert verdict.violations == []


@pytest.mark.parametrize("committer", ["key-first", "enqueue-first"])
def test_what_is_wrong_works_as_long_as_nobody_dies(arena: Arena, committer: str) -> None:
    """It is the kills that the checker finds, not the clumsy commits as such."""
    arena.program = (WRONG, committer)
    arena.declare(count=1)
    arena.start()
    arena.goes_on(10)
    assert arena.judge().violations == []
