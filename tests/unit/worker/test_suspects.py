"""Patience before a recovery."""

from __future__ import annotations

from worker.suspects import Suspects


def test_a_suspect_is_ripe_when_it_was_seen_at_every_look_for_long_enough() -> None:
    suspects = Suspects(patience=10)
    assert suspects.ripe([b"a"], now=0) == []
    assert suspects.ripe([b"a", b"b"], now=9) == []
    assert suspects.ripe([b"a", b"b"], now=10) == [b"a"]


def test_one_that_was_cleared_in_between_starts_anew() -> None:
    suspects = Suspects(patience=10)
    suspects.ripe([b"a"], now=0)
    suspects.ripe([], now=5)
    assert suspects.ripe([b"a"], now=11) == []
    assert suspects.ripe([b"a"], now=21) == [b"a"]
