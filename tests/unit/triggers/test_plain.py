"""Triggers as plain data."""

import json

import msgpack
import pytest

from scheduler.triggers import CronTrigger, DateTrigger, IntervalTrigger, from_data, to_data
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
        ([], "mapping"),
        (None, "mapping"),
    ],
)
def test_what_is_not_a_stored_trigger_is_refused(data, message):
    with pytest.raises(TriggerError, match=message):
        from_data(data)


def test_a_foreign_trigger_is_not_stored():
    with pytest.raises(TriggerError, match="can't be stored"):
        to_data(object())
