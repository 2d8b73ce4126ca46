"""Stretches of constant offset against the standard library's own tables, for every zone there is."""

from itertools import pairwise
from zoneinfo import ZoneInfo, _zoneinfo, available_timezones

import pytest

from scheduler.triggers.zones import STEP, find_zone

FROM, TO = -2_208_988_800, 2_145_916_800  # 1900 to 2038


def changes_in_the_table(name):
    """(instant, offset) wherever the offset changes, by the compiled data."""
    table = _zoneinfo.ZoneInfo(name)
    offset = round(table._tti_before.utcoff.total_seconds()) if table._tti_before else None
    found = []
    for at, info in zip(table._trans_utc, table._ttinfos, strict=True):
        later = round(info.utcoff.total_seconds())
        if later != offset and FROM < at < TO:
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


def test_zones_without_a_table_are_one_stretch():
    assert find_zone("Etc/GMT-3").stretch_at(0).offset == 10_800
    assert find_zone(None).stretch_at(0).offset == 0
    assert find_zone("UTC") == find_zone(None)
    assert find_zone(ZoneInfo("Europe/Paris")) == find_zone("Europe/Paris")
