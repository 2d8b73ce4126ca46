"""Local days lie end to end in time, whatever a zone does."""

from itertools import pairwise

import pytest

from scheduler.triggers.crondays import day_number
from scheduler.triggers.localdays import DAY_MS, day_of, first_placed_after, pieces_of, place
from scheduler.triggers.zones import find_zone

ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "America/Havana",
    "Asia/Gaza",
]
PLACES = [find_zone(name) for name in ZONES]
DAYS = [range(day_number(year, 1, 1), day_number(year + 3, 1, 1)) for year in (1981, 2010, 2024, 2600)]


@pytest.mark.parametrize("zone", PLACES, ids=ZONES)
@pytest.mark.parametrize("days", DAYS)
def test_the_pieces_of_days_follow_on_each_other(zone, days):
    pieces = sorted(piece for day in days for piece in pieces_of(zone, day))
    assert all(earlier.end == later.start for earlier, later in pairwise(pieces))


@pytest.mark.parametrize("zone", PLACES, ids=ZONES)
def test_an_instant_lies_in_the_day_that_its_clock_shows(zone):
    for day in DAYS[1]:
        for piece in pieces_of(zone, day):
            assert (day, day) == (day_of(zone, piece.start), day_of(zone, piece.end - 1))


def test_a_day_that_a_zone_left_out_has_no_pieces():
    assert list(pieces_of(find_zone("Pacific/Apia"), day_number(2011, 12, 30))) == []


def test_a_skipped_wall_time_is_placed_at_the_end_of_the_gap():
    berlin = find_zone("Europe/Berlin")
    gap_ends = 1_774_746_000_000  # 2026-03-29T01:00Z
    assert place(berlin, day_number(2026, 3, 29) * DAY_MS + 2 * 3_600_000 + 5) == gap_ends


@pytest.mark.parametrize("zone", PLACES, ids=ZONES)
def test_wall_times_are_placed_in_order_and_the_first_later_one_is_known(zone):
    at = day_number(2026, 10, 20) * DAY_MS
    for _ in range(24 * 4 * 20):
        at += 900_000
        wall = first_placed_after(zone, at)
        assert place(zone, wall - 1) <= at < place(zone, wall)
