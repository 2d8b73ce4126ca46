"""Instants and lengths: what passes, what is refused, and that a float never loses a millisecond."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from scheduler.triggers import CronTrigger, DateTrigger, IntervalTrigger, jitter_ms
from scheduler.triggers.base import END_MS, ms_at_or_before
from shared.errors import TriggerError, UnknownZoneError

TRIGGERS = [IntervalTrigger(0.01), CronTrigger("* * * * *", "Europe/Paris"), DateTrigger(1_718_000_000)]


@pytest.mark.parametrize("ms", [1, 999, 1001, 1_718_000_000_001, 4_102_444_800_123, END_MS - 1001])
def test_a_whole_millisecond_survives_the_float(ms):
    assert ms == ms_at_or_before(ms / 1000)
    assert ms - 1 == ms_at_or_before(ms / 1000 - 0.0004)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize(
    "bad",
    [
        float("nan"),
        float("inf"),
        float("-inf"),
        "tomorrow",
        pytest.param("x" * 10_000_000, id="10 MB"),
        None,
        datetime(2026, 1, 1),  # noqa: DTZ001 - the fault itself
    ],
)
def test_what_is_no_instant_is_refused_in_one_sentence(trigger, bad):
    with pytest.raises(TriggerError):
        trigger.next_fire(bad)


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("late", [END_MS / 1000 - 0.001, 1e12, 1e300, 10**30])
def test_after_the_year_9999_there_is_nothing(trigger, late):
    assert trigger.next_fire(late) is None


@pytest.mark.parametrize("trigger", TRIGGERS[:2])
def test_before_the_year_1_the_first_fire_is_in_it(trigger):
    first = trigger.next_fire(-1e300)
    assert -62_135_700_000 < first < -62_135_500_000


@pytest.mark.parametrize(
    "at",
    [-1, float("nan"), float("inf"), 1e12, 253_402_300_800, "2026-01-01", None, datetime(2026, 1, 1), 10**400],  # noqa: DTZ001
)
def test_a_date_is_a_finite_aware_instant_between_1970_and_9999(at):
    with pytest.raises(TriggerError):
        DateTrigger(at)


def test_a_date_fires_once_and_never_early():
    assert DateTrigger(1_718_000_000).next_fire(0) == 1_718_000_000.0
    assert DateTrigger(1_718_000_000).next_fire(1_718_000_000.0) is None
    assert DateTrigger(5.0001).next_fire(0) == 5.001
    assert DateTrigger(datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=1)))) == DateTrigger(3600)


@pytest.mark.parametrize(
    "seconds",
    [
        0,
        -1,
        0.001,
        0.0105,
        float("nan"),
        float("inf"),
        1e300,
        10**400,
        True,
        "60",
        None,
        timedelta(microseconds=10_001),
    ],
)
def test_an_interval_is_finite_whole_milliseconds_from_ten_up(seconds):
    with pytest.raises(TriggerError, match="seconds"):
        IntervalTrigger(seconds)


@pytest.mark.parametrize("jitter", [-1, float("nan"), float("inf"), 0.00001, "1"])
def test_jitter_is_finite_whole_milliseconds(jitter):
    with pytest.raises(TriggerError, match="jitter"):
        IntervalTrigger(60, jitter)


def test_an_anchor_is_not_rounded():
    with pytest.raises(TriggerError, match="whole number of milliseconds"):
        IntervalTrigger(2, start=1_718_000_000.1234567)


class TestInterval:
    def test_lands_on_the_grid_of_the_epoch(self):
        assert IntervalTrigger(300).next_fire(1_718_000_001) == 1_718_000_100

    def test_is_strictly_later(self):
        assert IntervalTrigger(300).next_fire(0) == 300

    def test_starts_at_its_anchor_inclusive(self):
        trigger = IntervalTrigger(60, start=1000)
        assert [trigger.next_fire(0), trigger.next_fire(1000)] == [1000.0, 1060.0]

    def test_ends_before_its_end(self):
        trigger = IntervalTrigger(60, start=1000, end=1120)
        assert trigger.next_fire(1000) == 1060
        assert trigger.next_fire(1060) is None
        assert trigger.prev_ms(END_MS) == 1_060_000
        assert trigger.count_ms(0, END_MS) == 2

    def test_with_nothing_between_start_and_end_is_refused(self):
        with pytest.raises(TriggerError, match="not before end"):
            IntervalTrigger(60, start=1000, end=1000)

    def test_counts_thirty_days_of_ten_milliseconds_at_once(self):
        month = 30 * 86_400_000
        assert IntervalTrigger(0.01).count_ms(0, month) == 259_200_000
        assert month - 10 == IntervalTrigger(0.01).prev_ms(month)

    def test_takes_a_timedelta_and_is_equal_by_value(self):
        assert IntervalTrigger(timedelta(minutes=5)) == IntervalTrigger(300.0)
        assert len({IntervalTrigger(300), IntervalTrigger(300), IntervalTrigger(300.0)}) == 1

    def test_says_what_it_is(self):
        assert IntervalTrigger(300).describe() == "every 300 s"
        assert IntervalTrigger(0.01).describe() == "every 0.01 s"
        assert IntervalTrigger(2_592_000).describe() == "every 2592000 s"


@pytest.mark.parametrize(
    "zone",
    [
        "UTC+3",
        "Europa/Madrid",
        "",
        "../etc/passwd",
        "europe/paris",
        pytest.param("x" * 10_000_000, id="10 MB"),
        5,
        "\0",
        ["UTC"],
        UTC,
    ],
)
def test_a_zone_that_is_none_is_refused(zone):
    with pytest.raises(UnknownZoneError):
        CronTrigger("0 9 * * *", zone)


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("europe/paris", "Europe/Paris"),
        ("Europa/Madrid", "Europe/Madrid"),
        ("UTC+3", "Etc/GMT-3"),
        ("Paris", "Europe/Paris"),
    ],
)
def test_a_near_miss_is_answered_with_a_name(zone, near):
    with pytest.raises(UnknownZoneError, match=f"did you mean.*'{near}'"):
        CronTrigger("0 9 * * *", zone)


def test_aliases_of_zones_are_accepted():
    assert CronTrigger("0 9 * * *", "EST5EDT").next_fire(1_780_000_000) is not None


def test_fire_times_are_aware_and_in_the_zone():
    times = CronTrigger("0 9 * * *", "Europe/Paris").fire_times(datetime(2026, 3, 28, 12, tzinfo=UTC), 2)
    assert [time.isoformat() for time in times] == ["2026-03-29T09:00:00+02:00", "2026-03-30T09:00:00+02:00"]


def test_jitter_is_a_function_within_its_bounds():
    delays = [jitter_ms("report", nominal, 1000) for nominal in range(20_000)]
    assert delays == [jitter_ms("report", nominal, 1000) for nominal in range(20_000)]
    assert (min(delays), max(delays)) == (0, 1000)
    assert delays != [jitter_ms("another", nominal, 1000) for nominal in range(20_000)]
    assert jitter_ms("report", 5, 0) == 0
