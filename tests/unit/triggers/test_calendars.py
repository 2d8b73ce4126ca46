"""Calendar intervals, RFC 5545 rules, business days and blackouts."""

import subprocess
import sys
from datetime import UTC, date, datetime, timedelta

import pytest
from dateutil.rrule import rrulestr

from scheduler.triggers import (
    BusinessDayTrigger,
    Calendar,
    CalendarIntervalTrigger,
    CronTrigger,
    IntervalTrigger,
    RRuleTrigger,
)
from scheduler.triggers.base import END_MS
from shared.errors import NeverFiresError, TriggerError


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def first(trigger, start, n):
    """The first `n` fires after `start`, on the wall clock of the trigger."""
    return [f"{time:%Y-%m-%d %H:%M}" for time in trigger.fire_times(at(start), n)]


class TestCalendarInterval:
    def test_returns_to_its_day_after_a_short_month(self):
        monthly = CalendarIntervalTrigger(1, "month", date(2026, 1, 31), at="09:00")
        assert first(monthly, "2026-01-01", 3) == ["2026-01-31 09:00", "2026-02-28 09:00", "2026-03-31 09:00"]

    def test_can_skip_short_months(self):
        monthly = CalendarIntervalTrigger(1, "month", "2026-01-31", short_month="skip")
        assert first(monthly, "2026-01-01", 3) == ["2026-01-31 00:00", "2026-03-31 00:00", "2026-05-31 00:00"]

    def test_is_found_backwards_over_the_months_that_it_skips(self):
        monthly = CalendarIntervalTrigger(1, "month", "2026-01-31", short_month="skip")
        assert monthly.prev_ms(round(at("2026-05-30").timestamp() * 1000)) == round(at("2026-03-31").timestamp() * 1000)
        assert monthly.prev_ms(round(at("2026-01-31").timestamp() * 1000)) is None

    def test_counts_from_the_first_date(self):
        assert first(CalendarIntervalTrigger(2, "week", "2026-01-07"), "2026-02-01", 2) == [
            "2026-02-04 00:00",
            "2026-02-18 00:00",
        ]
        assert first(CalendarIntervalTrigger(10, "day", "2026-01-07"), "2025-01-01", 2) == [
            "2026-01-07 00:00",
            "2026-01-17 00:00",
        ]

    def test_a_leap_day_comes_back_every_four_years_or_on_the_last_of_february(self):
        every_leap_day = CalendarIntervalTrigger(1, "year", "2024-02-29", short_month="skip")
        assert first(every_leap_day, "2024-03-01", 1) == ["2028-02-29 00:00"]
        assert first(CalendarIntervalTrigger(1, "year", "2024-02-29"), "2024-03-01", 1) == ["2025-02-28 00:00"]

    def test_stays_on_the_wall_clock(self):
        daily = CalendarIntervalTrigger(1, "day", "2026-03-01", at="02:30", timezone="Europe/Berlin")
        assert first(daily, "2026-03-27T12:00", 3) == ["2026-03-28 02:30", "2026-03-29 03:00", "2026-03-30 02:30"]

    def test_is_as_cheap_over_a_long_gap(self):
        monthly = CalendarIntervalTrigger(1, "month", "2026-01-31")
        assert monthly.prev_ms(END_MS) == 253_402_214_400_000
        assert monthly.count_ms(0, END_MS) == (9999 - 2026) * 12 + 12

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0, "day", "2026-01-01"), "every"),
            ((1.5, "day", "2026-01-01"), "every"),
            ((1, "fortnight", "2026-01-01"), "unit"),
            ((1, "day", "2026-02-30"), "on"),
            ((1, "day", None), "on"),
            ((1, "day", "1969-12-31"), "1970"),
        ],
    )
    def test_what_is_no_calendar_interval_is_refused(self, arguments, message):
        with pytest.raises(TriggerError, match=message):
            CalendarIntervalTrigger(*arguments)

    @pytest.mark.parametrize(
        "wall_time", ["25:00", "09:00:00.5", "09:00+01:00", 9, pytest.param("x" * 10_000_000, id="10 MB")]
    )
    def test_what_is_no_wall_time_is_refused(self, wall_time):
        with pytest.raises(TriggerError, match="at"):
            CalendarIntervalTrigger(1, "day", "2026-01-01", at=wall_time)


RULES = [
    "FREQ=DAILY;INTERVAL=3",
    "FREQ=HOURLY;INTERVAL=7;BYMINUTE=0,30",
    "FREQ=WEEKLY;INTERVAL=3;BYDAY=MO,FR",
    "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SU,TU",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;INTERVAL=5;BYMONTHDAY=31,-1",
    "FREQ=MONTHLY;BYDAY=2MO,-1FR;BYHOUR=9",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2",
    "FREQ=YEARLY;INTERVAL=4",
    "FREQ=YEARLY;BYMONTH=3,10;BYDAY=-1SU",
    "FREQ=YEARLY;INTERVAL=2;BYWEEKNO=1,53",
    "FREQ=YEARLY;BYYEARDAY=-1,60",
    "FREQ=DAILY;COUNT=40;BYDAY=TU",
    "FREQ=MINUTELY;INTERVAL=50;BYHOUR=8,9",
]


class TestRules:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("start", ["2023-08-31T10:15:00", "2024-02-29T23:59:30"])
    def test_yield_what_dateutil_yields_from_the_start(self, rule, start):
        trigger = RRuleTrigger(rule, at(start))
        expected = [
            time.replace(tzinfo=UTC)
            for _, time in zip(range(60), rrulestr(rule, dtstart=datetime.fromisoformat(start)), strict=False)
        ]
        assert trigger.fire_times(at(start) - timedelta(seconds=1), 60)[: len(expected)] == expected
        assert trigger.prev_ms(round(expected[-1].timestamp() * 1000) + 1) == round(expected[-1].timestamp() * 1000)
        assert trigger.prev_ms(round(expected[1].timestamp() * 1000)) == round(expected[0].timestamp() * 1000)

    def test_until_is_inclusive_and_an_instant(self):
        rule = RRuleTrigger("RRULE:FREQ=DAILY;UNTIL=20260103T080000Z", at("2026-01-01T08:00"), "Europe/Paris")
        assert rule.count_ms(0, END_MS) == 3

    @pytest.mark.parametrize("rule", ["FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30", "FREQ=YEARLY;BYMONTH=4;BYMONTHDAY=31"])
    def test_that_never_fire_are_refused(self, rule):
        with pytest.raises(NeverFiresError):
            RRuleTrigger(rule)

    @pytest.mark.parametrize(
        "rule",
        [
            "",
            "INTERVAL=2",
            "FREQ=FORTNIGHTLY",
            "FREQ=DAILY;INTERVAL=0",
            "FREQ=DAILY;INTERVAL=-1",
            "FREQ=DAILY;COUNT=99999999",
            "FREQ=DAILY;FREQ=DAILY",
            "FREQ=DAILY;BYDAY=XX",
            "FREQ=DAILY;UNTIL=20261399T000000Z",
            "FREQ=DAILY\nEXDATE:20260101T000000",
            "DTSTART=20260101T000000;FREQ=DAILY",
            pytest.param("F" * 10_000_000, id="10 MB"),
            None,
        ],
    )
    def test_that_are_none_are_refused(self, rule):
        with pytest.raises(TriggerError):
            RRuleTrigger(rule)

    def test_without_dateutil_the_cure_is_named(self):
        hidden = "import sys; sys.modules['dateutil'] = None\nfrom scheduler.triggers import RRuleTrigger\n"
        code = f"{hidden}RRuleTrigger('FREQ=DAILY')"
        run = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": "."}, capture_output=True, check=False)
        assert b"pip install 'rqbeat[rrule]'" in run.stderr


# Friday 2026-12-25 and Monday 2026-12-28 are holidays: the days of rest are 25 to 28 December.
ENGLAND = Calendar("england", ["2026-12-25", date(2026, 12, 28)])


class TestBusinessDays:
    def test_skip_leaves_days_of_rest_out(self):
        assert first(ENGLAND.skip(CronTrigger("0 9 * * *")), "2026-12-24", 2) == [
            "2026-12-24 09:00",
            "2026-12-29 09:00",
        ]

    def test_next_moves_to_the_first_business_day_after(self):
        payday = ENGLAND.move_to_next(CronTrigger("0 9 26 * *"))
        assert first(payday, "2026-11-01", 2) == ["2026-11-26 09:00", "2026-12-29 09:00"]

    def test_previous_moves_to_the_last_business_day_before(self):
        payday = ENGLAND.move_to_previous(CronTrigger("0 9 26,27 * *"))
        assert first(payday, "2026-11-26T12:00", 2) == ["2026-11-27 09:00", "2026-12-24 09:00"]

    def test_what_is_moved_onto_each_other_is_one_fire(self):
        daily = ENGLAND.move_to_next(CronTrigger("0 9 * * *"))
        assert first(daily, "2026-12-24T12:00", 2) == ["2026-12-29 09:00", "2026-12-30 09:00"]
        assert (
            daily.count_ms(round(at("2026-12-24T12:00").timestamp() * 1000), round(at("2026-12-31").timestamp() * 1000))
            == 2
        )

    def test_a_moved_fire_may_overtake(self):
        # Saturday 10:00 and Sunday 9:00 are told in the order in which they come on Monday.
        both = CronTrigger("0 10 * * 6") | CronTrigger("0 9 * * 0")
        moved = Calendar("weekends").move_to_next(both)
        assert first(moved, "2026-01-02T12:00", 2) == ["2026-01-05 09:00", "2026-01-05 10:00"]

    def test_days_are_those_of_the_trigger_s_zone(self):
        # Friday 23:30 in New York is Saturday in UTC.
        late = CronTrigger("30 23 * * *", "America/New_York")
        assert first(Calendar("weekends").skip(late), "2026-01-02T12:00", 2) == ["2026-01-02 23:30", "2026-01-05 23:30"]

    def test_blackouts_hide_what_falls_into_them(self):
        freeze = Calendar(
            "freeze", weekend=(), blackouts=[(at("2026-12-20"), at("2027-01-02")), (at("2026-12-31"), at("2027-01-03"))]
        )
        assert first(freeze.skip(CronTrigger("0 9 * * *")), "2026-12-19", 2) == ["2026-12-19 09:00", "2027-01-03 09:00"]
        dense = freeze.skip(IntervalTrigger(0.01))
        assert dense.next_fire(at("2026-12-20").timestamp() - 0.01) == at("2027-01-03").timestamp()
        assert (
            dense.prev_ms(round(at("2027-01-03").timestamp() * 1000)) == round(at("2026-12-20").timestamp() * 1000) - 10
        )

    def test_a_calendar_is_a_value(self):
        same = Calendar("england", ["2026-12-28", "2026-12-25", "2026-12-25"])
        assert BusinessDayTrigger(CronTrigger("0 9 * * *"), same) == ENGLAND.skip(CronTrigger("0 9 * * *"))
        assert hash(same) == hash(ENGLAND)

    @pytest.mark.parametrize(
        "build",
        [
            lambda: Calendar(""),
            lambda: Calendar("x", holidays=["2026-02-30"]),
            lambda: Calendar("x", weekend=["SATURDAY"]),
            lambda: Calendar("x", weekend=["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]),
            lambda: Calendar("x", blackouts=[(5, 5)]),
            lambda: Calendar("x", blackouts=[(datetime(2026, 1, 1), 5)]),  # noqa: DTZ001 - the fault itself
            lambda: BusinessDayTrigger(CronTrigger("0 9 * * *"), ENGLAND, "sideways"),
            lambda: BusinessDayTrigger(CronTrigger("0 9 * * *"), "england"),
            lambda: BusinessDayTrigger("0 9 * * *", ENGLAND),
        ],
    )
    def test_what_is_no_calendar_is_refused(self, build):
        with pytest.raises(TriggerError):
            build()

    def test_what_no_business_day_is_left_for_is_refused(self):
        with pytest.raises(TriggerError, match="never"):
            Calendar("weekends").skip(CronTrigger("0 9 * * 0"))
