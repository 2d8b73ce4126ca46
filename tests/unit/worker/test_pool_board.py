"""The board of a pool: notes arrive whole, in another process too."""

from __future__ import annotations

import os

import pytest

from worker.pool.board import Board, Note, Phase, Score
from worker.pool.growth import Growth

NOTE = Note(
    phase=Phase.RUNNING,
    job_id="x" * 500,
    token="a" * 32,
    asked="b" * 32,
    started=1.5,
    wall=1_700_000_000_123,
    timeout=7,
)


def test_a_new_board_says_idle() -> None:
    assert Board().read() == Note()


def test_what_is_written_is_read() -> None:
    board = Board()
    for note in (NOTE, Note(asked="c" * 32), Note(phase=Phase.HOLDING, job_id="é")):
        board.write(note)
        assert board.read() == note


def test_a_note_is_kept_while_runs_are_counted_and_a_stop_is_asked_for() -> None:
    board = Board()
    board.write(NOTE)
    board.count(success=True, seconds=0.25)
    board.ask_to_leave()
    board.count(success=False, seconds=0.5)
    assert (board.read(), board.score(), board.is_to_leave) == (NOTE, Score(2, 1, 0.75), True)
    board.ask_to_leave(leave=False)
    board.write(Note())
    assert (board.score(), board.is_to_leave) == (Score(2, 1, 0.75), False)


def test_a_child_that_is_killed_before_its_note_is_valid_leaves_the_one_before() -> None:
    board = Board()
    board.write(NOTE)
    page, valid = board._page, board._page[0]
    board.write(Note(phase=Phase.ENDING, job_id="other"))
    page[0] = valid  # all but the last byte of that was written
    assert board.read() == NOTE


def test_the_parent_reads_what_a_child_wrote() -> None:
    board = Board()
    if (pid := os.fork()) == 0:
        board.write(NOTE)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert board.read() == NOTE


@pytest.mark.parametrize(("limit", "has_grown"), [(1024 * 1024, True), (1024**4, False)])
def test_growth_is_told_from_the_beginning_on(limit: int, has_grown: bool) -> None:
    growth = Growth(limit)
    held = b"x" * (64 * 1024 * 1024)
    assert (growth.is_too_much(), len(held)) == (has_grown, 64 * 1024 * 1024)
