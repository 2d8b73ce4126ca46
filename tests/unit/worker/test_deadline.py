"""When a job is too old to start."""

from __future__ import annotations

import pytest

from worker.deadline import expiry_note, is_expired, skew_problem


@pytest.mark.parametrize(
    ("deadline", "now", "expired"), [(None, 10**15, False), (1000, 999, False), (1000, 1000, False), (1000, 1001, True)]
)
def test_a_job_may_start_up_to_its_deadline(deadline: int | None, now: int, expired: bool) -> None:
    assert is_expired(deadline, now) is expired


def test_the_note_names_the_instant_and_the_lateness() -> None:
    note = "expired: its deadline 2026-11-29T08:00:00Z passed 1.250 s before it would have started"
    assert expiry_note(1_795_939_200_000, 1_795_939_201_250) == note


@pytest.mark.parametrize(
    ("here", "agrees"), [(1000.0, True), (1005.0, True), (995.0, True), (1005.1, False), (0, False)]
)
def test_a_clock_that_is_off_is_told_by_how_much(here: float, agrees: bool) -> None:
    problem = skew_problem(here, 1000.0)
    assert (problem is None) is agrees
    assert agrees or f"{here - 1000:+.1f} s off" in str(problem)
