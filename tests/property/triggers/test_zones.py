"""Stretches of constant offset against the standard library's own tables, for every zone there is."""

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo, _zoneinfo, available_timezones

import pytest

from scheduler.triggers.zones import ERA, STEP, find_zone

FROM, TO = -2_208_988_800, 2_145_916_800  # 1900 to 2038


def changes_in_the_table(name, until=TO):
    """(instant, offset) wherever the offset changes, by the compiled data."""
    table = _zoneinfo.ZoneInfo(name)
    offset = round(table._tti_before.utcoff.total_seconds()) if table._tti_before else None
    found = []
    for at, info in zip(table._trans_utc, table._ttinfos, strict=True):
        later = round(info.utcoff.total_seconds())
        if later != offset and FROM < at < until:
            found.append((at, later))
        offset = later
    return found


def changes_found(name):
    zone, second, found = find_zone(name), FROM, {}
    while second < TO:
        stretch = zone.stretch_at(second)
        if stretch.before != stretch.offset and FROM < stretch.start < TO:
            found[stretch.start] = stretch.offset
        second = stretch.end
    return list(found.items())


SAMPLE = [
    "Africa/Casablanca",
    "Africa/Freetown",
    "Africa/Monrovia",
    "America/Boa_Vista",
    "America/New_York",
    "Asia/Gaza",
    "Asia/Manila",
    "Australia/Lord_Howe",
    "Europe/Amsterdam",
    "Pacific/Apia",
]


@pytest.mark.parametrize("name", SAMPLE)
def test_finds_every_change_of_offset(name):
    assert changes_found(name) == changes_in_the_table(name)


def test_no_zone_changes_twice_within_a_step():
    for name in available_timezones() - {"localtime"}:
        instants = [at for at, _ in changes_in_the_table(name)]
        assert all(later - earlier > STEP for earlier, later in pairwise(instants)), name


def test_no_table_reaches_the_years_that_are_taken_to_repeat():
    for name in available_timezones() - {"localtime"}:
        assert all(at < 4_102_444_800 for at, _ in changes_in_the_table(name, 10**12)), name


@pytest.mark.parametrize("name", ["America/New_York", "Africa/Casablanca", "Australia/Lord_Howe", "Asia/Gaza"])
def test_offsets_of_far_years_are_those_of_the_standard_library(name):
    zone, info = find_zone(name), ZoneInfo(name)
    for second in range(16_725_225_600, 200_000_000_000, 86_400 * 997):
        assert zone.stretch_at(second).offset == datetime.fromtimestamp(second, info).utcoffset().total_seconds()
        assert zone.stretch_at(second).start <= second < zone.stretch_at(second).end


@pytest.mark.parametrize("name", SAMPLE)
def test_a_stretch_knows_its_neighbours_wherever_it_is_asked_for(name):
    zone, info = find_zone(name), ZoneInfo(name)

    def offset(second):
        return datetime.fromtimestamp(second, info).utcoffset().total_seconds()

    for second in range(FROM, TO, ERA // 5):
        stretch = zone.stretch_at(second)
        assert stretch.start <= second < stretch.end
        around = offset(stretch.start - 1), offset(second), offset(stretch.end)
        assert (stretch.before, stretch.offset, stretch.after) == around


def test_zones_without_a_table_are_one_stretch():
    assert find_zone("Etc/GMT-3").stretch_at(0).offset == 10_800
    assert find_zone(None).stretch_at(0).offset == 0
    assert find_zone("UTC") == find_zone(None)
    assert find_zone(ZoneInfo("Europe/Paris")) == find_zone("Europe/Paris")
