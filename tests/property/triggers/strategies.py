"""Triggers and instants at random, most of them close to where clocks change."""

from datetime import date
from functools import cache
from zoneinfo import _zoneinfo  # the pure Python twin tells its transitions, which the compiled one hides

from hypothesis import assume
from hypothesis import strategies as st

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
)
from shared.errors import NeverFiresError, TriggerTooSparseError

# Both sides of the equator, half-hour and two-hour changes, changes at midnight and across it, negative summer time,
# Ramadan,
# a day left out, rules that came and went.
ZONES = [
    "UTC",
    "Africa/Cairo",
    "Africa/Casablanca",
    "Africa/El_Aaiun",
    "Africa/Khartoum",
    "Africa/Windhoek",
    "America/Asuncion",
    "America/Caracas",
    "America/Havana",
    "America/New_York",
    "America/Nuuk",
    "America/Santiago",
    "America/Sao_Paulo",
    "America/Scoresbysund",
    "America/St_Johns",
    "Antarctica/Troll",
    "Asia/Amman",
    "Asia/Beirut",
    "Asia/Gaza",
    "Asia/Pyongyang",
    "Asia/Tehran",
    "Atlantic/Azores",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Europe/Dublin",
    "Europe/Lisbon",
    "Europe/Moscow",
    "Europe/Samara",
    "Pacific/Apia",
    "Pacific/Auckland",
    "Pacific/Chatham",
    "Pacific/Easter",
    "Pacific/Kwajalein",
    "Pacific/Norfolk",
]

EARLIEST = 157_766_400  # 1975: all offsets of these zones are whole minutes from here on
LATEST = 2_145_916_800  # 2038


@cache
def changes_of(zone):
    """The instants (s) at which a zone changes, from 1975 to 2037, by the standard library's own tables."""
    table = _zoneinfo.ZoneInfo(zone)
    return [at for at in table._trans_utc if EARLIEST < at < LATEST] or [EARLIEST]


def near_changes(zone):
    """Instants in ms: within two days of a change of the zone, mostly within hours, some anywhere."""
    hours = st.integers(-4 * 3_600_000, 4 * 3_600_000)
    days = st.integers(-48 * 3_600_000, 48 * 3_600_000)
    round_minutes = st.integers(-240, 240).map(lambda minutes: minutes * 60_000)
    near = st.builds(
        lambda at, by: at * 1000 + by, st.sampled_from(changes_of(zone)), st.one_of(hours, round_minutes, days)
    )
    anywhere = st.integers(EARLIEST * 1000, LATEST * 1000)
    return st.one_of(near, near, near, anywhere)


def items(low, high):
    values = st.integers(low, high)
    ranges = st.tuples(values, values).map(lambda pair: f"{min(pair)}-{max(pair)}")
    return st.one_of(
        values.map(str),
        ranges,
        st.builds("{}/{}".format, ranges, st.integers(1, high)),
        st.builds("{}/{}".format, values, st.integers(1, high)),
        st.builds("*/{}".format, st.integers(1, high)),
    )


def fields(low, high, *, stars=1):
    listed = st.lists(items(low, high), min_size=1, max_size=3).map(",".join)
    return st.one_of(*[st.just("*")] * stars, listed)


days_of_month = st.one_of(
    *[st.just("*")] * 4,
    fields(1, 31),
    st.sampled_from(["L", "LW", "?", "L-2", "1W", "15W", "31W", "1,L", "15W,LW"]),
)
days_of_week = st.one_of(
    *[st.just("*")] * 4,
    fields(0, 7),
    st.sampled_from(["MON-FRI", "5L", "SUN#1", "2#5", "6,1#2", "SATL", "7"]),
)
night_hours = st.sampled_from(["0", "1", "2", "3", "0-3", "23", "1,2", "0-23", "0-23/2", "*", "*/2", "*/6", "2/3"])


@st.composite
def expressions(draw):
    minute, hour = draw(fields(0, 59)), draw(st.one_of(night_hours, night_hours, fields(0, 23)))
    month = draw(st.one_of(*[st.just("*")] * 4, fields(1, 12)))
    return f"{minute} {hour} {draw(days_of_month)} {month} {draw(days_of_week)}"


@st.composite
def bounds(draw, zone):
    start, length = draw(near_changes(zone)) // 1000, draw(st.integers(1, 10**8))
    return draw(st.sampled_from([{}, {}, {"start": start}, {"end": start}, {"start": start, "end": start + length}]))


def policies():
    return st.fixed_dictionaries(
        {"gap": st.sampled_from(["next", "shift", "skip"]), "repeat": st.sampled_from(["first", "last", "both"])}
    )


@st.composite
def crons(draw, zone, *, bounded=True):
    text, options = draw(expressions()), draw(policies()) | (draw(bounds(zone)) if bounded else {})
    if draw(st.integers(0, 3)) == 0:
        text, options = f"{draw(fields(0, 59))} {text}", options | {"seconds": True}
    return built(lambda: CronTrigger(text, zone, **options))


@st.composite
def intervals(draw, zone, *, bounded=True):
    period = draw(st.one_of(st.integers(10, 5_000), st.integers(1, 10**6).map(lambda s: s * 1000)))
    return IntervalTrigger(period / 1000, **(draw(bounds(zone)) if bounded else {}))


@st.composite
def dates(draw, zone):
    return DateTrigger(draw(near_changes(zone)) / 1000)


@st.composite
def calendar_intervals(draw, zone):
    first = draw(near_changes(zone)) // 86_400_000
    return CalendarIntervalTrigger(
        draw(st.integers(1, 40)),
        draw(st.sampled_from(["day", "week", "month", "year"])),
        draw(st.sampled_from([date.fromordinal(first + 719_163), "1976-02-29", "1975-01-31", "1980-12-30"])),
        at=draw(st.sampled_from(["00:00", "00:30", "01:30", "02:30", "03:00", "23:45:10"])),
        timezone=zone,
        short_month=draw(st.sampled_from(["last", "skip"])),
        **draw(policies()),
        **draw(bounds(zone)),
    )


RULES = [
    "FREQ=DAILY",
    "FREQ=DAILY;INTERVAL=3;BYHOUR=2;BYMINUTE=30",
    "FREQ=DAILY;COUNT=500;BYHOUR=1,2;BYMINUTE=0,30",
    "FREQ=HOURLY;INTERVAL=5;BYMINUTE=30",
    "FREQ=MINUTELY;INTERVAL=45;BYHOUR=0,1,2,3",
    "FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,WE;BYHOUR=2;BYMINUTE=30",
    "FREQ=WEEKLY;INTERVAL=2;WKST=SU;BYDAY=SA,SU",
    "FREQ=MONTHLY",
    "FREQ=MONTHLY;INTERVAL=5;BYDAY=-1SU;BYHOUR=2;BYMINUTE=30",
    "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
    "FREQ=YEARLY",
    "FREQ=YEARLY;INTERVAL=3;BYMONTH=3,10;BYDAY=-1SU;BYHOUR=1,2",
    "FREQ=YEARLY;BYWEEKNO=13;BYDAY=SU",
    "FREQ=YEARLY;BYYEARDAY=1,100,-1",
    "FREQ=DAILY;UNTIL=20251026T013000Z",
]


@st.composite
def rrules(draw, zone):
    start = draw(st.one_of(st.none(), near_changes(zone).map(lambda at: at // 1000)))
    rule = draw(st.sampled_from(RULES))
    return built(lambda: RRuleTrigger(rule, start, zone, **draw(policies())))


def leaves(zone):
    return st.one_of(
        crons(zone, bounded=False), intervals(zone, bounded=False), dates(zone), crons("UTC", bounded=False)
    )


@st.composite
def meeting(draw, zone):
    """Triggers on whole minutes, which meet others of their kind often enough to be intersected."""
    if draw(st.booleans()):
        return IntervalTrigger(draw(st.sampled_from([0.01, 1, 20, 60, 300, 900, 1800, 3600])))
    minute, hour = draw(st.sampled_from(["*", "*/5", "0", "0,30", "*/15"])), draw(night_hours)
    text = f"{minute} {hour} {draw(st.sampled_from(['*', '1-20', 'L', '*/2']))} * {draw(st.sampled_from(['*', '1-5']))}"
    return CronTrigger(text, draw(st.sampled_from([zone, zone, "UTC"])), **draw(policies()))


@st.composite
def compounds(draw, zone, depth=2):
    logic = draw(st.sampled_from([CompoundLogic.OR, CompoundLogic.OR, CompoundLogic.AND, CompoundLogic.MINUS]))
    inner = leaves(zone) if logic is CompoundLogic.OR else meeting(zone)
    if depth > 1:
        inner = st.one_of(inner, inner, compounds(zone, depth - 1))
    members = draw(st.lists(inner, min_size=1, max_size=3))
    options = draw(bounds(zone)) if depth == 2 else {}
    return built(lambda: CompoundTrigger(members, logic, **options))


@st.composite
def calendars(draw, zone):
    near = [at // 86_400 for at in changes_of(zone)]
    days = st.builds(lambda day, by: date.fromordinal(day + by + 719_163), st.sampled_from(near), st.integers(-2, 2))
    windows = st.builds(
        lambda start, length: (start // 1000, start // 1000 + length), near_changes(zone), st.integers(1, 10**6)
    )
    return Calendar(
        "test",
        holidays=draw(st.lists(days, max_size=6)),
        weekend=draw(st.sampled_from([("SAT", "SUN"), ("FRI", "SAT"), ("SUN",), ()])),
        blackouts=draw(st.lists(windows, max_size=2)),
    )


@st.composite
def business_days(draw, zone):
    trigger = draw(st.one_of(crons(zone), intervals(zone), calendar_intervals(zone), dates(zone), crons("UTC")))
    roll = draw(st.sampled_from(["skip", "next", "previous"]))
    calendar, options = draw(calendars(zone)), draw(bounds(zone))
    return built(lambda: BusinessDayTrigger(trigger, calendar, roll, timezone=zone, **options))


def built(build):
    """What `build` makes; a trigger that is refused for never firing is no example."""
    try:
        return build()
    except (NeverFiresError, TriggerTooSparseError):
        assume(False)
        raise


KINDS = {
    "cron": crons,
    "interval": intervals,
    "date": dates,
    "calendar interval": calendar_intervals,
    "rrule": rrules,
    "compound": compounds,
    "business days": business_days,
}
