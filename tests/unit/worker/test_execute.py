"""What becomes of a result that can't travel."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from worker.execute import _portable
from worker.site import RunOverError


@dataclass
class Reading:
    """Its one field raises when it is read."""

    value: int

    def __getattribute__(self, name: str) -> object:
        if name == "value":
            raise self.error
        return object.__getattribute__(self, name)

    error = Exception()


def test_a_result_that_raises_when_it_is_read_is_dropped() -> None:
    result = object.__new__(Reading)
    result.error = ZeroDivisionError("of its own")
    assert _portable(result, "tests.Reading") is None


def test_a_run_whose_time_is_up_while_its_result_is_read_is_over() -> None:
    result = object.__new__(Reading)
    result.error = RunOverError("5 s")
    with pytest.raises(RunOverError, match="5 s"):
        _portable(result, "tests.Reading")
