"""Declared against stored."""

from __future__ import annotations

from scheduler.reconcile import diff, is_older


def test_a_diff_names_what_has_to_happen_to_each() -> None:
    declared = {"new": "1", "changed": "2", "same": "1"}
    found = diff(declared, {"new": "", "changed": "1", "same": "1"}, {"changed", "same", "old"})
    assert (found.add, found.change, found.remove, found.same) == (("new",), ("changed",), ("old",), ("same",))


def test_what_was_made_at_run_time_and_is_declared_now_is_changed() -> None:
    found = diff({"mine": "1"}, {"mine": "2"}, owned=set())
    assert (found.add, found.change) == ((), ("mine",))


def test_what_was_made_at_run_time_stays() -> None:
    assert diff({}, {}, owned=set()).is_empty


def test_an_empty_set_is_refused() -> None:
    assert diff({}, {}, {"a"}).refusal()


def test_a_sharply_smaller_set_is_refused() -> None:
    assert diff({"a0": "1"}, {"a0": "1"}, {f"a{i}" for i in range(10)}).refusal()


def test_one_removed_of_few_is_a_wish() -> None:
    assert diff({"a": "1"}, {"a": "1"}, {"a", "b"}).refusal() is None


def test_an_older_version_is_told_from_a_newer_one() -> None:
    assert is_older("1.9", "1.10")
    assert not is_older("1.10", "1.9")
    assert not is_older(None, "1.0")
    assert not is_older("1.0", None)
    assert is_older("2026-11-01", "2026-11-29")
    assert is_older("v9.0", "v10.0")
    assert not is_older("1.0", "9" * 5000)
    assert is_older("1.0.0-rc1", "1.0.0")
    assert not is_older("1.0.0", "1.0.0-rc1")
    assert not is_older("1.0", "1.0.0")


def test_what_can_not_be_compared_is_not_older() -> None:
    assert not is_older("1f0c", "9abe")
    assert not is_older("9abe", "1f0c")
