"""Triggers as plain data."""

import json

import msgpack
import pytest

from scheduler.triggers import (
    BusinessDayTrigger,
    Calendar,
    CalendarIntervalTrigger,
    CompoundLogic,
    CompoundTrigger,
    CronTrigger,
    DateTrigger,
    IntervalTrigger,
    RRuleTrigger,
    from_data,
    to_data,
)
from shared.errors import TriggerError

TRIGGERS = [
    CronTrigger("0 9 * * 1-5"),
    CronTrigger("0 9 * * 1-5", "Europe/Paris", gap="shift", repeat="both", start=0.5, end=1e9),
    CronTrigger("*/5 0 9 * * *", seconds=True),
    CronTrigger("H H * * *", id="report"),
    CronTrigger("H H * * *"),
    IntervalTrigger(300),
    IntervalTrigger(0.01, jitter=1.5, start=1_718_000_000.001, end=1_718_000_001),
    DateTrigger(1_718_000_000.123),
    CompoundTrigger([IntervalTrigger(60), CronTrigger("0 9 * * *") & IntervalTrigger(3600)], start=5),
    CompoundTrigger([IntervalTrigger(60), IntervalTrigger(120)], CompoundLogic.MINUS),
    CalendarIntervalTrigger(2, "month", "2026-01-31", at="09:30", timezone="Europe/Paris", short_month="skip"),
    RRuleTrigger("FREQ=MONTHLY;BYDAY=-1FR", 1_767_225_600, "Europe/Paris", gap="skip"),
    BusinessDayTrigger(
        CronTrigger("0 9 * * *", "Europe/Paris"),
        Calendar("france", ["2026-07-14"], weekend=["SUN"], blackouts=[(5.5, 6)]),
        "previous",
        end=2_000_000_000,
    ),
]


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_comes_back_equal_through_msgpack_and_json(trigger):
    data = to_data(trigger)
    assert from_data(msgpack.unpackb(msgpack.packb(data))) == trigger
    assert from_data(json.loads(json.dumps(data))) == trigger
    assert hash(from_data(data)) == hash(trigger)


def test_the_stored_form_is_fixed():
    trigger = CronTrigger("0 9 * * *", "Europe/Paris", start=1.5)
    stored = {"v": 1, "type": "cron", "expression": "0 9 * * *", "timezone": "Europe/Paris", "start": 1500}
    assert to_data(trigger) == stored
    assert to_data(IntervalTrigger(300)) == {"v": 1, "type": "interval", "seconds": 300_000}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"v": 2, "type": "cron"}, "version 2"),
        ({"type": "cron"}, "version None"),
        ({"v": 1, "type": "sundial"}, "'sundial'"),
        ({"v": 1, "type": ["cron"]}, "type"),
        ({"v": 1, "type": "cron"}, "does not fit"),
        ({"v": 1, "type": "interval", "seconds": 300_000, "colour": 1}, "does not fit"),
        ({"v": 1, "type": "interval", "seconds": "soon"}, "does not fit"),
        ({"v": 1, "type": "compound", "triggers": [{"v": 1, "type": "date", "at": 5}], "logic": "xor"}, "does not fit"),
        ({"v": 1, "type": "compound", "triggers": [5], "logic": "or"}, "mapping"),
        ({"v": 1, "type": "cron", "expression": "0 0 30 2 *"}, "never fires"),
        ([], "mapping"),
        (None, "mapping"),
    ],
)
def test_what_is_not_a_stored_trigger_is_refused(data, message):
    with pytest.raises(TriggerError, match=message):
        from_data(data)


def test_a_calendar_is_stored_with_its_trigger():
    stored = to_data(TRIGGERS[-1])["calendar"]
    assert stored == {"name": "france", "holidays": ["2026-07-14"], "weekend": ["SUN"], "blackouts": [[5500, 6000]]}


def test_data_nested_without_end_is_refused():
    data = to_data(IntervalTrigger(60))
    for _ in range(5000):
        data = {"v": 1, "type": "compound", "logic": "or", "triggers": [data]}
    with pytest.raises(TriggerError):
        from_data(data)


def test_a_foreign_trigger_is_not_stored():
    with pytest.raises(TriggerError, match="can't be stored"):
        to_data(object())
