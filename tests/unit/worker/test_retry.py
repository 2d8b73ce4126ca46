"""The delay before a retry, and whether there is one."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.errors import ExpiredError, OnceInDoubtError, RefusedPayloadError, UnknownJobError
from shared.retry import Retry
from worker.retry import LONGEST_DELAY, attempt_of, delay_seconds, longest_span, may_retry, retry_after

RULES = st.builds(
    Retry,
    max=st.integers(1, 30),
    backoff=st.integers(0, 1000),
    factor=st.integers(1, 10),
    cap=st.none() | st.integers(0, 10_000),
    jitter=st.sampled_from([0, 0.1, 1]),
)


class ThrottledError(Exception):
    def __init__(self, after: object) -> None:
        self.retry_after = after


@pytest.mark.parametrize(
    ("rule", "delays"),
    [
        (Retry(5), [0, 0, 0]),
        (Retry(5, backoff=10), [10, 20, 40]),
        (Retry(5, backoff=10, factor=1), [10, 10, 10]),
        (Retry(5, backoff=10, factor=3, cap=60), [10, 30, 60]),
        (Retry(5, backoff=0.2), [1, 1, 1]),
        (Retry(5, backoff=timedelta(minutes=1)), [60, 120, 240]),
    ],
)
def test_the_delay_grows_by_the_factor_to_the_cap_in_whole_seconds(rule: Retry, delays: list[int]) -> None:
    assert [delay_seconds(rule, "job", attempt) for attempt in (1, 2, 3)] == delays


@given(rule=RULES, attempt=st.integers(1, 1000))
def test_a_delay_is_whole_bounded_and_the_same_each_time(rule: Retry, attempt: int) -> None:
    delay = delay_seconds(rule, "job", attempt)
    assert delay == delay_seconds(rule, "job", attempt)
    assert 0 <= delay <= LONGEST_DELAY


def test_jitter_spreads_jobs_within_its_share() -> None:
    delays = {delay_seconds(Retry(1, backoff=1000, jitter=0.1), f"job-{number}", 1) for number in range(500)}
    assert len(delays) > 80
    assert 1000 <= min(delays) <= max(delays) <= 1100


ASKED = [
    *[(7, 7), (2.5, 2.5), (timedelta(minutes=1), 60), (10**9, 86_400), (float("inf"), 86_400)],
    *[(-1, 0), ("soon", 0), (True, 0), (None, 0), (float("nan"), 0)],
]


@pytest.mark.parametrize(("asked", "seconds"), ASKED)
def test_an_error_may_ask_for_a_later_retry(asked: object, seconds: float) -> None:
    assert retry_after(ThrottledError(asked)) == seconds


class HeaderlessError(Exception):
    @property
    def retry_after(self) -> float:
        return float({}["Retry-After"])


def test_an_error_that_can_not_say_asks_for_nothing() -> None:
    assert delay_seconds(Retry(1, backoff=10), "job", 1, HeaderlessError()) == 10


def test_a_retry_is_never_earlier_than_rule_and_error_ask() -> None:
    assert delay_seconds(Retry(1, backoff=10), "job", 1, ThrottledError(30)) == 30
    assert delay_seconds(Retry(1, backoff=10), "job", 1, ThrottledError(3)) == 10


@pytest.mark.parametrize(
    ("rule", "error", "retried"),
    [
        (None, ValueError(), False),
        (Retry(1), ValueError(), True),
        (Retry(1, on=(ValueError,)), UnicodeError(), True),
        (Retry(1, on=(ValueError,)), KeyError(), False),
        (Retry(1, on=("builtins.OSError",)), TimeoutError(), True),
        (Retry(1), SystemExit(), False),
        (Retry(1, on=(KeyError,)), None, True),
        (Retry(1), RefusedPayloadError(""), False),
        (Retry(1), UnknownJobError(""), False),
        (Retry(1), ExpiredError(""), False),
        (Retry(1), OnceInDoubtError(""), False),
    ],
)
def test_which_ends_of_a_run_are_retried(rule: Retry | None, error: BaseException | None, retried: bool) -> None:
    assert may_retry(rule, error) is retried


def test_the_attempt_follows_from_the_retries_left() -> None:
    assert [attempt_of(Retry(3), left) for left in (3, 2, 1, 0)] == [1, 2, 3, 4]


def test_the_longest_span_covers_all_delays_and_runs() -> None:
    assert longest_span(None, 180) == 180
    assert longest_span(Retry(2, backoff=10, jitter=0.5), 100) == 15 + 30 + 3 * 100
