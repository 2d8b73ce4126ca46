"""Cron in words, its marks and its warnings."""

import pytest

from scheduler.explain import explain, next_fires, warnings_of
from scheduler.triggers import CronTrigger, IntervalTrigger
from shared.errors import CronSyntaxError, NeverFiresError, TriggerError, UnknownZoneError

NOW = 1_767_225_600  # 2026-01-01T00:00Z


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("* * * * *", "Every minute, every day (UTC time)."),
        ("*/5 * * * *", "Every 5 minutes, every day (UTC time)."),
        ("*/7 * * * *", "Every 7th minute from 0 of every hour, every day (UTC time)."),
        ("30 * * * *", "At minute 30 of every hour, every day (UTC time)."),
        ("0 9 * * 1-5", "At 09:00, on Monday to Friday (UTC time)."),
        ("0 9,17 * * *", "At 09:00 and 17:00, every day (UTC time)."),
        ("15 */2 * * *", "At minute 15 of every 2 hours, every day (UTC time)."),
        ("5,20,35,50 8-18 * * *", "At minutes 5, 20, 35 and 50 from 08:00 to 18:59, every day (UTC time)."),
        ("0 0 1 1 *", "At 00:00, on day 1 of the month, in January (UTC time)."),
        ("0 0 13 * FRI", "At 00:00, on day 13 of the month or on Friday (UTC time)."),
        ("0 0 */2 * 1", "At 00:00, on every 2nd day of the month from the 1st, if it falls on Monday (UTC time)."),
        ("0 0 L,15W * ?", "At 00:00, on the last day and the weekday nearest to day 15 of the month (UTC time)."),
        ("0 0 L-3 * *", "At 00:00, on the day 3 days before the last day of the month (UTC time)."),
        ("0 0 LW 3,6 *", "At 00:00, on the last weekday of the month, in March and June (UTC time)."),
        ("0 0 * * MON#1,5L", "At 00:00, on the first Monday of the month and the last Friday of the month (UTC time)."),
        ("@hourly", "At minute 0 of every hour, every day (UTC time)."),
    ],
)
def test_says_it_in_words(expression, words):
    assert explain(expression, now=NOW).words == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("*/10 * * * * *", "Every 10 seconds, every day (UTC time)."),
        ("5 * * * * *", "At second 5 of every minute, every day (UTC time)."),
        ("*/10 0 9 * * *", "Every 10 seconds of minute 0 from 09:00 to 09:59, every day (UTC time)."),
        ("5,10 0 9 * * *", "At 09:00:05 and 09:00:10, every day (UTC time)."),
    ],
)
def test_says_seconds_in_words(expression, words):
    assert explain(expression, now=NOW, seconds=True).words == words


@pytest.mark.parametrize(
    ("expression", "warning"),
    [
        ("0 0 13 * 5", "cron fires when either matches"),
        ("0 0 */2 * 1", "must both match"),
        ("*/7 * * * *", "from 56 to 0 it is 4"),
        ("0 */5 * * *", "from 20 to 0 it is 4"),
        ("*/90 * * * *", "wider than the field"),
        ("0 0 */2 * *", "starts again at 1 every month"),
        ("0 0 31 * *", "5 of its 12 months have no such day"),
        ("0 0 30 * *", "1 of its 12 months have no such day"),
        ("0 0 31W * *", "5 of its 12 months"),
        ("0 0 29 2 *", "most Februaries"),
        ("0 0 29 2 *", "2.2 years away"),
        ("0 0 * * MON#5", "most months have no fifth"),
        ("0 0-23 * * *", "not the same as *"),
    ],
)
def test_warns_of_what_may_surprise(expression, warning):
    assert any(warning in each for each in explain(expression, now=NOW).warnings)


@pytest.mark.parametrize(
    "expression", ["* * * * *", "*/5 * * * *", "0 9 * * 1-5", "0 0 1 * *", "0 0 L * *", "*/15 */6 * * *"]
)
def test_does_not_warn_of_what_is_plain(expression):
    assert explain(expression, "Europe/Tallinn", now=NOW).warnings == ()


@pytest.mark.parametrize(
    ("expression", "zone", "warnings"),
    [
        (
            "30 2 * * *",
            "Europe/Berlin",
            [
                "2026-03-29 in Europe/Berlin: 02:30 does not exist when clocks go forward; it fires once, at 03:00",
                "2026-10-25 in Europe/Berlin: 02:30 passes twice when clocks go back; it fires the first time only",
            ],
        ),
        (
            "0 */2 * * *",
            "Europe/Berlin",
            [
                "2026-03-29 in Europe/Berlin: 02:00 does not exist when clocks go forward; there is no fire for it",
                "2026-10-25 in Europe/Berlin: 02:00 passes twice when clocks go back; it fires both times",
            ],
        ),
        ("30 * * * *", "Europe/Berlin", []),
        ("30 2 * * *", "Asia/Tokyo", []),
        ("30 2 * * *", None, []),
    ],
)
def test_warns_of_the_clock_changes_of_the_next_year(expression, zone, warnings):
    assert list(explain(expression, zone, now=NOW).warnings) == warnings


def test_warns_of_what_the_trigger_does_in_a_gap():
    shifting = CronTrigger("30 2 * * *", "Europe/Berlin", gap="shift", repeat="last")
    gap, repeat = warnings_of(shifting, NOW)
    assert gap.endswith("it fires as much later as clocks went forward")
    assert repeat.endswith("it fires the second time only")


def test_marks_fires_that_a_clock_change_moved_or_repeats():
    def notes(trigger, after):
        return [(f"{fire.local:%m-%d %H:%M}", fire.note) for fire in next_fires(trigger, after, 3)]

    daily = CronTrigger("30 2 * * *", "Europe/Berlin")
    assert notes(daily, 1_774_656_000) == [("03-28 02:30", None), ("03-29 03:00", "gap"), ("03-30 02:30", None)]
    hourly = CronTrigger("30 * * * *", "Europe/Berlin")
    assert notes(hourly, 1_792_886_400) == [("10-25 02:30", "repeat"), ("10-25 02:30", "repeat"), ("10-25 03:30", None)]
    assert notes(daily | hourly, 1_774_742_400 + 1800)[0] == ("03-29 03:00", "gap")
    assert notes(IntervalTrigger(86_400), 1_774_656_000)[0][1] is None


def test_is_plain_data():
    data = explain("*/20 9 * * *", "Europe/Paris", now=NOW, n=2).to_dict()
    assert data["next"] == ["2026-01-01T08:00:00Z", "2026-01-01T08:20:00Z"]
    assert data["fields"]["minute"] == {"text": "*/20", "values": [0, 20, 40], "words": "every 20 minutes"}
    assert list(data) == ["expression", "words", "fields", "next", "warnings"]
    assert list(data["fields"]) == ["minute", "hour", "day of month", "month", "day of week"]
    [fire] = next_fires(CronTrigger("0 9 * * *", "Europe/Paris"), NOW, 1)
    assert fire.to_dict() == {
        "at": "2026-01-01T08:00:00Z",
        "epoch": 1_767_254_400.0,
        "local": "2026-01-01T09:00:00+01:00",
        "note": None,
    }


def test_h_needs_an_id_and_says_so():
    assert any("H comes from the schedule's id" in each for each in explain("H 5 * * *", now=NOW, id="a").warnings)
    with pytest.raises(TriggerError, match="id="):
        explain("H 5 * * *", now=NOW)


@pytest.mark.parametrize(
    ("expression", "zone", "error"),
    [
        ("* * * *", None, CronSyntaxError),
        ("0 0 30 2 *", None, NeverFiresError),
        ("* * * * *", "Mars", UnknownZoneError),
    ],
)
def test_what_is_wrong_is_refused_as_anywhere(expression, zone, error):
    with pytest.raises(error):
        explain(expression, zone, now=NOW)
