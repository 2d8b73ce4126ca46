"""The collected cron cases: right answers and refusals, each a line of data."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from scheduler.triggers import CronParser, CronTrigger
from scheduler.triggers.base import iso
from shared.errors import CronSyntaxError, NeverFiresError

DATA = Path(__file__).parents[2] / "data"


def lines(name):
    return [json.loads(line) for line in (DATA / name).read_text("utf-8").splitlines()]


def ms(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def trigger_of(case):
    return CronTrigger(case["expr"], case["tz"], seconds=len(case["expr"].split()) == 6)


CASES = lines("cron.jsonl")
REFUSED = lines("cron-invalid.jsonl")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_fires_at_the_known_instants(case):
    trigger, at, fires = trigger_of(case), ms(case["start"]), []
    for _ in case["next"]:
        at = trigger.next_ms(at)
        fires.append(iso(at))
    assert fires == case["next"]


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_is_found_again_backwards_and_counted(case):
    trigger, at, fires = trigger_of(case), ms(case["next"][-1]) + 1, []
    for _ in case["next"]:
        at = trigger.prev_ms(at)
        fires.append(iso(at))
    assert fires == case["next"][::-1]
    assert trigger.count_ms(ms(case["start"]), ms(case["next"][-1])) == len(case["next"])


@pytest.mark.parametrize("case", REFUSED, ids=range(len(REFUSED)))
def test_is_refused_when_built(case):
    error = NeverFiresError if case["never_fires"] else CronSyntaxError
    with pytest.raises(error):
        CronParser(case["expr"])
    with pytest.raises(error):
        CronTrigger(case["expr"], "America/New_York", seconds=True)
