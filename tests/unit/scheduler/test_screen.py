"""What `rqbeat dev` shows: which lines fit, how lines are shortened, and what never reaches the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from scheduler.cli.cells import clean, cut, pad, width
from scheduler.cli.common import table
from scheduler.cli.heard import MOST_BYTES, Heard, LineLog, shortened
from scheduler.cli.screen import Line, fitted

TITLE = Line("title")


def lines(word: str, count: int) -> list[Line]:
    return [Line(f"{word}{number}") for number in range(count)]


def texts(frame: list[Line]) -> list[str]:
    return [line.text for line in frame]


def test_the_newest_lines_fill_what_the_tables_leave() -> None:
    frame = texts(fitted(TITLE, [lines("schedule", 3), lines("queue", 2)], lines("log", 200), 23))
    assert frame[:8] == ["title", "schedule0", "schedule1", "schedule2", "", "queue0", "queue1", ""]
    assert frame[8:] == [f"log{number}" for number in range(185, 200)]


def test_tables_that_do_not_fit_are_cut_and_say_so() -> None:
    frame = texts(fitted(TITLE, [lines("schedule", 40), lines("queue", 9)], lines("log", 200), 14))
    assert frame == [
        *("title", "schedule0", "schedule1", "… 38 more", "", "queue0", "queue1", "… 7 more", ""),
        *("log195", "log196", "log197", "log198", "log199"),
    ]


@pytest.mark.parametrize("rows", range(8, 60))
@pytest.mark.parametrize("schedules", [1, 4, 100])
def test_a_frame_fits_and_keeps_five_lines_of_the_log(rows: int, schedules: int) -> None:
    frame = texts(fitted(TITLE, [lines("schedule", schedules), lines("queue", 6)], lines("log", 200), rows))
    assert len(frame) <= rows
    assert frame[-5:] == ["log195", "log196", "log197", "log198", "log199"]


def test_few_lines_of_the_log_are_all_shown() -> None:
    assert texts(fitted(TITLE, [lines("queue", 2)], lines("log", 2), 23))[-3:] == ["", "log0", "log1"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("\x1b[2J\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1b(B\x1b7a\x1b8\x1bc", "a"),
        ("\x9b31ma\x85b\x7f\x00\x08", "ab"),
        ("right \u202eto left\u2028", "right to left"),
        ("a\tb", "a       b"),
        ("an end \x1b[", "an end "),
        ("漢字 é", "漢字 é"),
    ],
)
def test_what_could_move_the_cursor_is_left_out(written: str, shown: str) -> None:
    assert clean(written) == shown


def test_wide_characters_count_twice_and_accents_not_at_all() -> None:
    assert [width(text) for text in ("abc", "漢字", "e\u0301", "ｱ", "🙂")] == [3, 4, 1, 1, 2]
    assert [cut("漢字漢字", room) for room in (8, 7, 6, 5, 1, 0)] == ["漢字漢字", "漢字漢…", "漢字…", "漢字…", "…", ""]
    assert (pad("漢", 4), pad("漢", 4, right=True)) == ("漢  ", "  漢")


def test_columns_of_a_table_stay_in_line() -> None:
    drawn = table(("ID", "N"), [["漢字", 1], ["plain", 10], ["a\x1b[1mb\n", 3]])
    assert drawn == ["ID      N", "漢字    1", "plain  10", "ab      3"]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("2026-11-29 22:52:47,058 INFO    rqbeat.worker: job a finished", "22:52:47 job a finished"),
        ("2026-11-29 22:52:47,058 DEBUG   rqbeat.beat: a: b enqueued", "22:52:47 a: b enqueued"),
        ("2026-11-29 22:52:47,058 WARNING rqbeat.beat: a: skipped", "22:52:47 WARNING a: skipped"),
        ("2026-11-29 22:52:47,058 ERROR   app: no", "22:52:47 ERROR no"),
        ("2026-11-29 was printed by a job", "2026-11-29 was printed by a job"),
    ],
)
def test_log_lines_are_shortened(written: str, shown: str) -> None:
    assert shortened(written) == shown


def test_a_failure_is_marked_with_its_traceback() -> None:
    heard = Heard(None, is_shown_at_once=False)
    for text in (
        "2026-11-29 22:52:47,058 WARNING rqbeat.worker: job a (1) failed: Traceback (most recent call last):",
        '  File "app.py", line 9, in a',
        "ValueError: no",
        "printed by a job",
        "2026-11-29 22:52:48,000 WARNING rqbeat.beat: a: skipped (overlap)",
        "2026-11-29 22:52:48,000 ERROR   app: no",
    ):
        heard("worker", text)
    assert [line.is_failure for line in heard.latest()] == [True, True, True, False, False, True]


def test_the_last_words_of_one_process_are_its_own() -> None:
    heard = Heard(None, is_shown_at_once=False)
    heard("beat", "one\n")
    heard("worker", "two\n")
    assert (heard.last_words("beat"), heard.last_words("server")) == ("  beat | one", "it said nothing")


def test_a_log_that_is_too_long_is_begun_anew(tmp_path: Path) -> None:
    log = LineLog(tmp_path / "dev.log")
    for line in ("a", "b" * MOST_BYTES, "c"):
        log.write(line)
    assert log.path.read_text() == "c\n"
    assert (tmp_path / "dev.log.1").stat().st_size == MOST_BYTES + 3
