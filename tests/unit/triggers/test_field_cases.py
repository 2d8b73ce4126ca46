"""Faults that people met with other schedulers, each under the name of its case."""

import subprocess
import sys
import time
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from scheduler.triggers import (
    CalendarIntervalTrigger,
    CronParser,
    CronTrigger,
    DateTrigger,
    IntervalTrigger,
    from_data,
    to_data,
)
from scheduler.triggers.base import iso
from shared.errors import CronSyntaxError, NeverFiresError, TriggerError, TriggerTooSparseError, UnknownZoneError


def ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def fires(trigger, start, end):
    """The fires after `start` up to `end`, as ISO text."""
    found, at = [], ms(start)
    while (at := trigger.next_ms(at)) is not None and at <= ms(end):
        found.append(iso(at))
    return found


def first(trigger, start, n):
    return [iso(round(time.timestamp() * 1000)) for time in trigger.fire_times(datetime.fromisoformat(start), n)]


def weekdays(text):
    """The weekdays of the first fires of an expression in one week that begins on a Sunday."""
    trigger = CronTrigger(f"0 0 * * {text}")
    return [f"{datetime.fromisoformat(day):%a}" for day in fires(trigger, "2026-03-07T12:00Z", "2026-03-14T12:00Z")]


# Time zones and clock changes


def test_dst_fallback_double():
    berlin = CronTrigger("30 2 * * *", "Europe/Berlin")
    assert fires(berlin, "2026-10-24T22:00Z", "2026-10-25T23:00Z") == ["2026-10-25T00:30:00Z"]
    new_york = CronTrigger("30 1 * * *", "America/New_York")
    assert fires(new_york, "2026-11-01T04:00Z", "2026-11-02T05:00Z") == ["2026-11-01T05:30:00Z"]
    hourly = CronTrigger("0 * * * *", "Europe/Berlin")
    assert len(fires(hourly, "2026-10-24T21:59Z", "2026-10-25T22:59Z")) == 25


def test_dst_spring_skip():
    trigger = CronTrigger("30 2 * * *", "Europe/Berlin")
    days = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"]
    assert fires(trigger, "2026-03-27T23:00Z", "2026-03-30T22:00Z") == days
    shifted = CronTrigger("30 2 * * *", "Europe/Berlin", gap="shift")
    assert fires(shifted, "2026-03-28T23:00Z", "2026-03-29T22:00Z") == ["2026-03-29T01:30:00Z"]
    skipping = CronTrigger("30 2 * * *", "Europe/Berlin", gap="skip")
    assert fires(skipping, "2026-03-28T23:00Z", "2026-03-29T22:00Z") == []


def test_dst_half_hour_shift():
    trigger = CronTrigger("0 * * * *", "Australia/Lord_Howe")
    for start, end, count in (
        ("2026-10-03T13:29Z", "2026-10-04T12:59Z", 23),
        ("2026-04-04T12:59Z", "2026-04-05T13:29Z", 24),
    ):
        forward = fires(trigger, start, end)
        back, at = [], ms(end) + 1
        while (at := trigger.prev_ms(at)) > ms(start):
            back.append(iso(at))
        assert back[::-1] == forward
        assert len(forward) == count
        assert all(
            at.astimezone(ZoneInfo("Australia/Lord_Howe")).minute == 0 for at in map(datetime.fromisoformat, forward)
        )


def test_dst_scheduler_stops():
    quarters = [ms("2026-10-24T23:00Z") + n * 900_000 for n in range(1, 17)]
    every_quarter = [iso(at) for at in quarters]
    assert fires(IntervalTrigger(900), "2026-10-24T23:00Z", "2026-10-25T03:00Z") == every_quarter
    assert (
        fires(CronTrigger("*/15 * * * *", "Europe/Berlin"), "2026-10-24T23:00Z", "2026-10-25T03:00Z") == every_quarter
    )
    assert fires(CronTrigger("*/15 * * * *", "Europe/Berlin"), "2026-03-28T23:00Z", "2026-03-29T03:00Z") == [
        iso(ms("2026-03-28T23:00Z") + n * 900_000) for n in range(1, 17)
    ]


def test_dst_hour_shift_days_later():
    trigger = CronTrigger("0 20 * * *", "Europe/Paris")
    for month in ("03", "10"):
        days = trigger.fire_times(datetime.fromisoformat(f"2026-{month}-20T00:00Z"), 12)
        assert [(day.hour, day.minute) for day in days] == [(20, 0)] * 12
        assert [day.day for day in days] == list(range(20, 32))


@pytest.mark.parametrize("period", [86_400, 604_800])
def test_dst_interval_meaning(period):
    trigger = IntervalTrigger(period, start=datetime(2026, 3, 20, tzinfo=ZoneInfo("Europe/Brussels")))
    restarted = from_data(to_data(trigger))
    times = [trigger.next_fire(ms("2026-03-20T00:00Z") / 1000)]
    while len(times) < 10:
        times.append((restarted if len(times) > 4 else trigger).next_fire(times[-1]))
    assert {later - earlier for earlier, later in pairwise(times)} == {period}


@pytest.mark.parametrize(
    ("zone", "thursday"),
    [
        ("Europe/Berlin", "2026-03-26"),
        ("America/New_York", "2026-03-05"),
        ("America/Santiago", "2026-09-03"),
        ("Australia/Sydney", "2026-10-01"),
        ("Australia/Lord_Howe", "2026-10-01"),
        ("Europe/London", "2026-03-26"),
        ("America/Havana", "2026-03-05"),
        ("Asia/Beirut", "2026-03-26"),
        ("Africa/Cairo", "2026-04-23"),
        ("Pacific/Auckland", "2026-09-24"),
    ],
)
def test_dst_week_skipped(zone, thursday):
    start = datetime.fromisoformat(thursday).replace(tzinfo=ZoneInfo(zone))
    [sunday] = CronTrigger("0 12 * * 0", zone).fire_times(start, 1)
    assert sunday.date() == date.fromisoformat(thursday) + timedelta(days=3)
    assert sunday.hour == 12


def test_dst_week_skipped_between_months():
    trigger = CronTrigger("* * * */3 *", "America/New_York")
    assert first(trigger, "2026-02-02T00:00:00+00:00", 1) == ["2026-04-01T04:00:00Z"]


TZ_IGNORED = """
from scheduler.triggers import CronTrigger
zones = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe"]
print([CronTrigger("0 9 * * *", zone).next_fire(1767225600) for zone in [None, *zones]])
"""


def test_tz_ignored():
    answers = {
        subprocess.run(
            [sys.executable, "-c", TZ_IGNORED], env={"TZ": host, "PYTHONPATH": "."}, capture_output=True, check=True
        ).stdout
        for host in ("UTC", "America/Los_Angeles")
    }
    nine = [1767258000.0, 1767258000.0, 1767254400.0, 1767276000.0, 1767238200.0, 1767304800.0]
    assert answers == {f"{nine}\n".encode()}


TZ_DATA_MISSING = """
import sys, zoneinfo
zoneinfo.reset_tzpath(to=[])
sys.modules["tzdata"] = None
from scheduler.triggers import CronTrigger, require_zone_data
from shared.errors import UnknownZoneError
print(CronTrigger("0 9 * * *").next_fire(0))
for build in (require_zone_data, lambda: CronTrigger("0 9 * * *", "Asia/Kathmandu")):
    try:
        build()
    except UnknownZoneError as error:
        print(error)
"""


def test_tz_data_missing_in_image():
    run = subprocess.run(
        [sys.executable, "-c", TZ_DATA_MISSING], env={"PYTHONPATH": "."}, capture_output=True, check=True
    )
    utc, at_start, at_load = run.stdout.decode().splitlines()
    assert utc == "32400.0"
    assert "pip install tzdata" in at_start
    assert "Asia/Kathmandu" in at_load
    assert "pip install tzdata" in at_load


@pytest.mark.parametrize(
    "zone", ["UTC+3", "Europa/Madrid", "", "../etc/passwd", "europe/paris", "localtime", "posix/UTC"]
)
def test_tz_bad_name_at_load(zone):
    with pytest.raises(UnknownZoneError) as caught:
        CronTrigger("0 9 * * *", zone)
    assert repr(zone) in str(caught.value)
    assert CronTrigger("0 9 * * *", "EST5EDT").timezone == "EST5EDT"


def test_tz_naive_datetime():
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the fault itself
    for build in (DateTrigger, lambda at: IntervalTrigger(60, start=at), lambda at: CronTrigger("* * * * *", end=at)):
        with pytest.raises(TriggerError, match="no time zone"):
            build(naive)
    paris = naive.replace(tzinfo=ZoneInfo("Europe/Paris"))
    assert DateTrigger(paris) == DateTrigger(datetime(2025, 12, 31, 23, tzinfo=UTC))


# Meaning and parsing


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 31 2 */7", "0 0 L-30 2,4 *"])
def test_cron_never_matches(expression):
    started = time.process_time()
    with pytest.raises(NeverFiresError, match="never fires"):
        CronTrigger(expression)
    assert time.process_time() - started < 0.1


def test_cron_never_matches_is_exact():
    assert CronTrigger("0 0 31 2 1").next_fire(0) is not None
    assert first(CronTrigger("0 0 29 2 */7"), "2004-03-01T00:00Z", 1) == ["2032-02-29T00:00:00Z"]


def test_cron_leap_day():
    trigger = CronTrigger("0 9 29 2 *")
    assert first(trigger, "2028-02-29T09:00Z", 1) == ["2032-02-29T09:00:00Z"]
    assert first(trigger, "2096-03-01T00:00Z", 1) == ["2104-02-29T09:00:00Z"]
    assert first(CronTrigger("0 9 * * *"), "2028-02-29T09:00Z", 1) == ["2028-03-01T09:00:00Z"]


@pytest.mark.parametrize("minute", ["*/0", "1-5/0", "*/-1", "59-0/7", "0/0", "*/00"])
def test_cron_zero_step(minute):
    with pytest.raises(CronSyntaxError) as caught:
        CronParser(f"{minute} * * * *")
    assert caught.value.field == "minute"


def test_cron_step_wider_than_the_field_is_its_first_value():
    assert CronTrigger("*/99999 * * * *").next_fire(0) == 3600.0


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("0", ["Sun"]),
        ("1", ["Mon"]),
        ("2", ["Tue"]),
        ("3", ["Wed"]),
        ("4", ["Thu"]),
        ("5", ["Fri"]),
        ("6", ["Sat"]),
        ("7", ["Sun"]),
        ("1-5", ["Mon", "Tue", "Wed", "Thu", "Fri"]),
        ("0,6", ["Sun", "Sat"]),
        ("mon-fri", ["Mon", "Tue", "Wed", "Thu", "Fri"]),
        ("SUN", ["Sun"]),
    ],
)
def test_cron_weekday_monday_zero(text, days):
    assert weekdays(text) == days


def test_cron_weekday_seven():
    assert weekdays("5-7") == ["Sun", "Fri", "Sat"]
    assert weekdays("6,7") == ["Sun", "Sat"]
    with pytest.raises(CronSyntaxError, match="from low to high"):
        CronTrigger("0 0 * * 7-1")


def test_cron_six_fields():
    for expression in ("*/10 * * * * *", "0 30 9 * * 1"):
        with pytest.raises(CronSyntaxError, match="seconds=True"):
            CronTrigger(expression)
    monday = CronTrigger("0 30 9 * * 1", seconds=True)
    assert first(monday, "2026-01-01T00:00Z", 1) == ["2026-01-05T09:30:00Z"]
    assert CronTrigger("*/10 * * * * *", seconds=True).count_ms(0, 60_000) == 6


def test_cron_uneven_steps():
    minutes = [at[14:16] for at in fires(CronTrigger("*/7 * * * *"), "2026-01-01T00:59Z", "2026-01-01T02:00Z")]
    assert minutes == ["00", "07", "14", "21", "28", "35", "42", "49", "56", "00"]
    days = [at[8:10] for at in fires(CronTrigger("0 0 */2 * *"), "2026-01-28T12:00Z", "2026-02-04T00:00Z")]
    assert days == ["29", "31", "01", "03"]


def test_cron_month_end():
    cron = fires(CronTrigger("0 0 31 * *"), "2026-01-01T00:00Z", "2027-12-31T12:00Z")
    assert [at[5:7] for at in cron] == ["01", "03", "05", "07", "08", "10", "12"] * 2
    interval = CalendarIntervalTrigger(1, "month", "2026-01-31")
    days = [at[8:10] for at in fires(interval, "2026-01-01T00:00Z", "2027-12-31T12:00Z")]
    assert days == ["31", "28", "31", "30", "31", "30", "31", "31", "30", "31", "30", "31"] * 2


@pytest.mark.parametrize(
    "build",
    [
        lambda: IntervalTrigger(2, start=1_718_000_000.001) & CronTrigger("1 * * * *"),
        lambda: CronTrigger("30 4 * * *") & CronTrigger("31 4 * * *"),
        lambda: IntervalTrigger(60, start=0.5) & IntervalTrigger(60),
        lambda: CronTrigger("* * * * *") & DateTrigger(61.5),
        lambda: CronTrigger("0 0 1 1 *") & CronTrigger("0 0 2 1 *", "Europe/Paris"),
        lambda: CronTrigger("0 9 * * *") - CronTrigger("0 * * * *"),
    ],
)
def test_compound_and_never_agrees(build):
    started = time.process_time()
    with pytest.raises((NeverFiresError, TriggerTooSparseError), match="never"):
        build()
    assert time.process_time() - started < 5


def test_compound_or_starves():
    both = IntervalTrigger(30) | IntervalTrigger(70)
    expected = sorted({n * 30_000 for n in range(1, 100)} | {n * 70_000 for n in range(1, 43)})
    found, at = [], 0
    while (at := both.next_ms(at)) <= 2_970_000:
        found.append(at)
    assert found == [at for at in expected if at <= 2_970_000]
    dates = DateTrigger(1000) | DateTrigger(2000)
    assert [dates.next_fire(0), dates.next_fire(1000), dates.next_fire(2000)] == [1000.0, 2000.0, None]
    mixed = CronTrigger("0 0 1 1 *") | DateTrigger(1000)
    assert [mixed.next_fire(0), mixed.next_fire(1000)] == [1000.0, 31_536_000.0]


def test_far_future_sleep():
    start = ms("2026-01-01T00:00Z")
    for days in (400, 80 * 366):
        at = start / 1000 + days * 86_400
        assert DateTrigger(at).next_fire(start / 1000) == at


def test_dup_same_minute_recalculated():
    trigger = CronTrigger("30 9 * * *")
    at = trigger.next_fire(0)
    for later in (0, 1e-6, 0.001, 1, 29.5, 59.999):
        assert trigger.next_fire(at + later) == at + 86_400
