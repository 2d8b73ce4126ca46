"""What cron does when clocks change: wild and fixed expressions, every policy, changes of every size."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from scheduler.triggers import CronParser, CronTrigger
from scheduler.triggers.base import iso


def fires(trigger, start, end):
    """The fires from local time `start` to `end`, as "day hour:minute offset" on the zone's own clock."""
    zone = ZoneInfo(trigger.timezone)
    first, last = (round(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000) for text in (start, end))
    found, at = [], first - 1
    while (at := trigger.next_ms(at)) is not None and at <= last:
        found.append(f"{datetime.fromisoformat(iso(at)).astimezone(zone):%d %H:%M %z}")
    assert len(found) == trigger.count_ms(first - 1, last)
    back, at = 0, last + 1
    while (at := trigger.prev_ms(at)) is not None and at >= first:
        back += 1
    assert back == len(found)
    return found


BERLIN_SPRING = ("2026-03-29T00:00", "2026-03-29T04:59")
BERLIN_AUTUMN = ("2026-10-25T00:00", "2026-10-25T04:59")


@pytest.mark.parametrize(
    ("expression", "gap", "expected"),
    [
        ("30 2 * * *", "next", ["29 03:00 +0200"]),
        ("30 2 * * *", "shift", ["29 03:30 +0200"]),
        ("30 2 * * *", "skip", []),
        ("0,15,45 2 * * *", "next", ["29 03:00 +0200"]),
        ("0,15,45 2 * * *", "shift", ["29 03:00 +0200", "29 03:15 +0200", "29 03:45 +0200"]),
        ("0 2,3 * * *", "next", ["29 03:00 +0200"]),
        ("30 1-3 * * *", "shift", ["29 01:30 +0100", "29 03:30 +0200"]),
        ("30 1-3 * * *", "next", ["29 01:30 +0100", "29 03:00 +0200", "29 03:30 +0200"]),
        ("30 2 29 3 *", "next", ["29 03:00 +0200"]),
        ("30 2 * * 0", "next", ["29 03:00 +0200"]),
        ("30 2 * * 1", "next", []),
        ("30 2 * 4 *", "next", []),
        ("30 * * * *", "next", ["29 00:30 +0100", "29 01:30 +0100", "29 03:30 +0200", "29 04:30 +0200"]),
        ("30 */2 * * *", "next", ["29 00:30 +0100", "29 04:30 +0200"]),
        ("*/30 2 * * *", "next", []),
        ("30 0-23/2 * * *", "next", ["29 00:30 +0100", "29 03:00 +0200", "29 04:30 +0200"]),
    ],
)
def test_in_a_gap(expression, gap, expected):
    assert fires(CronTrigger(expression, "Europe/Berlin", gap=gap), *BERLIN_SPRING) == expected


@pytest.mark.parametrize(
    ("expression", "repeat", "expected"),
    [
        ("30 2 * * *", "first", ["25 02:30 +0200"]),
        ("30 2 * * *", "last", ["25 02:30 +0100"]),
        ("30 2 * * *", "both", ["25 02:30 +0200", "25 02:30 +0100"]),
        ("0 2,3 * * *", "first", ["25 02:00 +0200", "25 03:00 +0100"]),
        ("0 2,3 * * *", "last", ["25 02:00 +0100", "25 03:00 +0100"]),
        ("30 2-3/1 * * *", "first", ["25 02:30 +0200", "25 03:30 +0100"]),
        ("*/30 2 * * *", "first", ["25 02:00 +0200", "25 02:30 +0200", "25 02:00 +0100", "25 02:30 +0100"]),
        ("30 */2 * * *", "last", ["25 00:30 +0200", "25 02:30 +0200", "25 02:30 +0100", "25 04:30 +0100"]),
    ],
)
def test_in_a_repeated_hour(expression, repeat, expected):
    assert fires(CronTrigger(expression, "Europe/Berlin", repeat=repeat), *BERLIN_AUTUMN) == expected


def test_after_the_second_passing_has_begun_the_next_is_tomorrow():
    second_passing = 1_792_890_000 + 60  # 02:01 in winter time
    at = CronTrigger("30 2 * * *", "Europe/Berlin").next_fire(second_passing)
    assert iso(round(at * 1000)) == "2026-10-26T01:30:00Z"


def test_backwards_out_of_a_second_passing_later_wall_times_are_found():
    trigger = CronTrigger("*/30 23 17 2 *", "America/Sao_Paulo")
    second_passing = 1_518_919_800_000  # 2018-02-18T02:10Z, 23:10 on the clock
    assert iso(trigger.prev_ms(second_passing)) == "2018-02-18T02:00:00Z"
    assert iso(trigger.prev_ms(1_518_919_200_000)) == "2018-02-18T01:30:00Z"
    half_past = CronTrigger("30 23 17 2 *", "America/Sao_Paulo", repeat="both")
    assert iso(half_past.prev_ms(second_passing)) == "2018-02-18T01:30:00Z"


def test_with_seconds_a_star_in_the_seconds_makes_it_wild():
    assert CronParser("*/5 30 2 * * *", seconds=True).fields.wild
    fixed = CronTrigger("15 30 2 * * *", "Europe/Berlin", seconds=True)
    assert iso(fixed.next_ms(1_774_742_400_000)) == "2026-03-29T01:00:00Z"
    assert (
        CronTrigger("*/5 30 2 * * *", "Europe/Berlin", seconds=True).count_ms(1_774_742_400_000, 1_774_760_400_000) == 0
    )


@pytest.mark.parametrize(
    ("zone", "expression", "start", "end", "expected"),
    [
        # Half an hour.
        ("Australia/Lord_Howe", "15 2 * * *", "2026-10-04T00:00", "2026-10-04T12:00", ["04 02:30 +1100"]),
        ("Australia/Lord_Howe", "45 1 * * *", "2026-04-05T00:00", "2026-04-05T12:00", ["05 01:45 +1100"]),
        # Two hours.
        ("Antarctica/Troll", "30 1,2 * * *", "2026-03-29T00:00", "2026-03-29T12:00", ["29 03:00 +0200"]),
        # At midnight, and one minute past it: the day that counts is that of the skipped time.
        ("America/Sao_Paulo", "0 0 * * 0", "2018-11-03T12:00", "2018-11-05T12:00", ["04 01:00 -0200"]),
        ("America/St_Johns", "30 0 * * *", "2010-03-14T00:00", "2010-03-14T12:00", ["14 01:01 -0230"]),
        # Back across midnight: Saturday's last hour comes twice.
        ("America/Sao_Paulo", "30 23 * * 6", "2018-02-17T12:00", "2018-02-19T12:00", ["17 23:30 -0200"]),
        # A wild one is back in that hour, though its next wall time is a year away.
        (
            "America/Sao_Paulo",
            "*/30 23 17 2 *",
            "2018-02-17T12:00",
            "2018-02-19T12:00",
            ["17 23:00 -0200", "17 23:30 -0200", "17 23:00 -0300", "17 23:30 -0300"],
        ),
        # Winter time is the exception (Dublin), summer time for a month only, and no winter time any more.
        ("Europe/Dublin", "30 1 * * *", "2026-10-25T00:00", "2026-10-25T12:00", ["25 01:30 +0100"]),
        ("Africa/Casablanca", "30 2 * * *", "2026-02-15T00:00", "2026-02-15T12:00", ["15 02:30 +0100"]),
        ("Africa/Casablanca", "30 2 * * *", "2026-03-22T00:00", "2026-03-22T12:00", ["22 03:00 +0100"]),
        ("Europe/Moscow", "30 2 * * *", "2011-03-27T00:00", "2011-03-27T12:00", ["27 03:00 +0400"]),
        # Without a whole hour: Caracas moved by 30 minutes for good.
        ("America/Caracas", "45 2 * * *", "2016-05-01T00:00", "2016-05-01T12:00", ["01 03:00 -0400"]),
        # Up to three hours back is a change of clocks; three hours forward is not.
        ("Antarctica/Casey", "30 0 5 3 *", "2010-03-04T12:00", "2010-03-05T12:00", ["05 00:30 +1100"]),
        ("Antarctica/Casey", "30 3 * * *", "2011-10-28T00:00", "2011-10-28T12:00", []),
        # A day that never was.
        ("Pacific/Apia", "0 12 30 12 *", "2011-12-29T00:00", "2011-12-31T23:00", []),
        ("Pacific/Apia", "0 12 * * *", "2011-12-29T00:00", "2011-12-31T23:00", ["29 12:00 -1000", "31 12:00 +1400"]),
        ("Pacific/Kwajalein", "0 12 21 8 *", "1993-08-19T00:00", "1993-08-23T00:00", []),
    ],
)
def test_changes_of_every_kind(zone, expression, start, end, expected):
    assert fires(CronTrigger(expression, zone), start, end) == expected


def test_the_last_fires_of_the_calendar_are_found_and_then_none():
    trigger = CronTrigger("59 23 31 12 *")
    last = 253_402_300_740_000
    assert trigger.next_ms(last - 1) == last
    assert trigger.next_ms(last) is None
    assert trigger.prev_ms(10**18) == last
    for zone in ("Pacific/Kiritimati", "Pacific/Niue"):
        found = CronTrigger("* * * * *", zone).prev_ms(10**18)
        assert datetime.fromtimestamp(found / 1000, ZoneInfo(zone)).year == 9999
