"""Once-marks against a store that is a dictionary; the kills are tried on real processes."""

from __future__ import annotations

from typing import Any, cast

import pytest

from shared.errors import ConfigurationError, OnceInDoubtError
from worker.once import once
from worker.site import Site


class Marks:
    """Has the two scripts' rules."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def enter_once(self, _job_id: str, mark: str, claim: str, _memory: int, on_doubt: str) -> str:
        held = self.held.get(mark)
        if held is None or (held != "done" and on_doubt == "repeat"):
            self.held[mark] = claim
            return "first"
        return "done" if held == "done" or on_doubt == "skip" else "doubt"

    def leave_once(self, _job_id: str, mark: str, claim: str, _memory: int, *, done: bool) -> None:
        if done:
            self.held[mark] = "done"
        elif self.held.get(mark) == claim:
            del self.held[mark]


@pytest.fixture
def marks() -> Marks:
    return Marks()


@pytest.fixture
def site(marks: Marks) -> Site:
    return Site(job_id="job", begun=cast("Any", None), runs=cast("Any", marks), memory_seconds=60)


def test_a_block_is_first_once(site: Site) -> None:
    seen = []
    for _ in range(3):
        with once(site, "mail") as first:
            seen.append(first)
    assert seen == [True, False, False]


def test_marks_are_independent(site: Site) -> None:
    with once(site, "mail") as mail, once(site, "bill") as bill:
        assert (mail, bill) == (True, True)


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_exception_releases_the_claim(site: Site, error: type[BaseException]) -> None:
    with pytest.raises(error), once(site, "mail"):
        raise error
    with once(site, "mail") as first:
        assert first


def test_what_was_cut_off_is_in_doubt(site: Site, marks: Marks) -> None:
    marks.held["mail"] = "a claim of a dead process"
    with pytest.raises(OnceInDoubtError, match="once 'mail'"), once(site, "mail"):
        raise AssertionError("never reached")
    with once(site, "mail", on_doubt="skip") as first:
        assert not first
    with once(site, "mail", on_doubt="repeat") as first:
        assert first
    assert marks.held["mail"] == "done"


def test_a_block_inside_itself_is_told_and_is_no_doubt(site: Site) -> None:
    with pytest.raises(ConfigurationError, match="already open in this run"), once(site, "mail"), once(site, "mail"):
        raise AssertionError("never reached")
    with once(site, "mail") as first:
        assert first
    with once(site, "mail") as first:
        assert not first


@pytest.mark.parametrize(("mark", "on_doubt"), [("", "raise"), ("a\nb", "raise"), ("x" * 201, "raise"), ("m", "no")])
def test_marks_that_are_no_names_are_told(site: Site, mark: str, on_doubt: Any) -> None:
    with pytest.raises(ConfigurationError), once(site, mark, on_doubt):
        pass
