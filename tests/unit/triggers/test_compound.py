"""Union, intersection and difference, and what is refused when it is built."""

import pytest

from scheduler.triggers import (
    Calendar,
    CompoundLogic,
    CompoundTrigger,
    CronTrigger,
    DateTrigger,
    IntervalTrigger,
    from_data,
    to_data,
)
from shared.errors import NeverFiresError, TriggerError, TriggerTooSparseError


def seconds(trigger, until):
    """The fires after 0 up to `until`, in s."""
    found, at = [], 0.0
    while (at := trigger.next_fire(at)) is not None and at <= until:
        found.append(at)
    return found


def test_the_union_is_every_instant_of_either_once():
    assert seconds(IntervalTrigger(4) | IntervalTrigger(6), 24) == [4, 6, 8, 12, 16, 18, 20, 24]


def test_the_intersection_is_where_both_fire():
    assert seconds(IntervalTrigger(4) & IntervalTrigger(6), 36) == [12, 24, 36]
    weekday_hours = CronTrigger("0 * * * *") & CronTrigger("* * * * 1-5")
    # 1970-01-01 was a Thursday, so 48 hours remain of the week, then comes Monday.
    assert seconds(weekday_hours, 5 * 86_400)[46:49] == [47 * 3600, 4 * 86_400, 4 * 86_400 + 3600]


def test_the_difference_leaves_out_what_the_other_yields():
    assert seconds(IntervalTrigger(4) - IntervalTrigger(6), 24) == [4, 8, 16, 20]
    everything_but_christmas = CronTrigger("0 9 * * *") - CronTrigger("* * 25 12 *")
    christmas_eve = 358 * 86_400 - 86_400 + 9 * 3600
    assert everything_but_christmas.next_fire(christmas_eve) == christmas_eve + 2 * 86_400


def test_combinations_nest():
    inner = IntervalTrigger(900) | CronTrigger("0 * * * *")
    outer = CompoundTrigger([inner, CronTrigger("* * * * 1-5")], CompoundLogic.AND)
    assert outer.next_fire(86_400 * 2 - 900) == 86_400 * 4
    assert (outer - DateTrigger(86_400 * 4)).next_fire(86_400 * 2 - 900) == 86_400 * 4 + 900


@pytest.mark.parametrize(
    ("one", "other", "period", "first"),
    [
        (IntervalTrigger(4), IntervalTrigger(6), 12, 12),
        (IntervalTrigger(7), IntervalTrigger(5, start=3), 35, 28),
        (IntervalTrigger(0.05), IntervalTrigger(0.07), 0.35, 0.35),
        (IntervalTrigger(86_399), IntervalTrigger(86_400), 86_399 * 86_400, 86_399 * 86_400),
    ],
)
def test_intervals_meet_in_an_interval(one, other, period, first):
    both = one & other
    assert [both.next_fire(0), both.next_fire(first)] == [first, first + period]
    assert both.count_ms(0, round((first + period) * 1000)) == 2


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (IntervalTrigger(2, start=1), IntervalTrigger(2)),
        (IntervalTrigger(6, start=1), IntervalTrigger(4)),
        (IntervalTrigger(0.01, start=0.005), IntervalTrigger(86_400)),
        (IntervalTrigger(60, end=1000), IntervalTrigger(60, start=2040)),
    ],
)
def test_intervals_that_never_meet_are_refused_exactly(one, other):
    with pytest.raises(NeverFiresError, match="never"):
        one & other


def test_what_does_not_meet_within_the_bound_is_refused_by_name():
    with pytest.raises(TriggerTooSparseError, match=r"30 4 \* \* \*.*31 4 \* \* \*"):
        CronTrigger("30 4 * * *") & CronTrigger("31 4 * * *")


def test_a_past_date_is_not_never():
    assert (CronTrigger("0 0 * * *") & DateTrigger(86_400)).next_fire(0) == 86_400


def test_start_is_inclusive_and_end_exclusive():
    trigger = CompoundTrigger([IntervalTrigger(4), IntervalTrigger(6)], start=8, end=18)
    assert seconds(trigger, 100) == [8, 12, 16]
    assert trigger.count_ms(0, 100_000) == 3
    with pytest.raises(NeverFiresError):
        CompoundTrigger([IntervalTrigger(40)], start=1, end=39)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: CompoundTrigger([]), "at least one"),
        (lambda: CompoundTrigger([IntervalTrigger(60), "0 9 * * *"]), "is a trigger"),
        (lambda: CompoundTrigger([IntervalTrigger(60, jitter=5)]), "jitter belongs to the schedule"),
        (lambda: CompoundTrigger([IntervalTrigger(60)], "xor"), "CompoundLogic"),
    ],
)
def test_what_is_no_combination_is_refused(build, message):
    with pytest.raises(TriggerError, match=message):
        build()


def test_nesting_is_bounded():
    deep = broad = IntervalTrigger(60)
    for _ in range(32):
        deep = CompoundTrigger([deep])
    for _ in range(8):
        broad = broad | broad
    for build in (lambda: CompoundTrigger([deep]), lambda: broad | broad, lambda: Calendar("weekends").skip(deep)):
        with pytest.raises(TriggerError, match="at most 32 deep"):
            build()


def test_counts_thirty_days_of_ten_milliseconds_at_once():
    month = 30 * 86_400_000
    assert (IntervalTrigger(0.01) | IntervalTrigger(0.015)).count_ms(0, month) == 259_200_000 + 172_800_000 - 86_400_000
    assert (IntervalTrigger(0.01) - IntervalTrigger(0.02)).count_ms(0, month) == 129_600_000


def test_h_is_bound_in_every_member():
    trigger = CronTrigger("H * * * *") | IntervalTrigger(3600)
    with pytest.raises(TriggerError, match="id="):
        trigger.next_fire(0)
    bound = trigger.bound_to("report")
    assert bound.count_ms(0, 86_400_000) in {24, 48}
    assert bound.bound_to("report") is bound
    assert from_data(to_data(trigger)) == trigger


def test_says_what_it_is():
    trigger = (CronTrigger("0 9 * * *", "Europe/Paris") | IntervalTrigger(60)) - DateTrigger(0)
    assert trigger.describe() == "(0 9 * * * Europe/Paris | every 60 s) - once at 1970-01-01T00:00:00Z"
    assert trigger.timezone is None
