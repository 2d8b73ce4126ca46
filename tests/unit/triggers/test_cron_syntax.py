"""The cron dialect: what is read, how it is refused, and what `H` becomes."""

import time
from itertools import pairwise

import pytest

from scheduler.triggers import CronParser, CronTrigger
from scheduler.triggers.cronsyntax import FIELDS, parse
from shared.errors import CronSyntaxError, NeverFiresError, TriggerError


def values(bits):
    return [value for value in range(64) if bits >> value & 1]


def refusal(text, **options):
    with pytest.raises(CronSyntaxError) as caught:
        CronParser(text, **options)
    return caught.value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*/20", [0, 20, 40]),
        ("5-9/2", [5, 7, 9]),
        ("50/4", [50, 54, 58]),
        ("0007,3", [3, 7]),
        ("*/99999", [0]),
        ("59,0", [0, 59]),
        ("7-7", [7]),
    ],
)
def test_minutes_are_read(text, expected):
    assert expected == values(parse(f"{text} * * * *").minute)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", [0]),
        ("7", [0]),
        ("5-7", [0, 5, 6]),
        ("6,7", [0, 6]),
        ("0-7", [0, 1, 2, 3, 4, 5, 6]),
        ("mon-Fri", [1, 2, 3, 4, 5]),
        ("SUN", [0]),
        ("*/2", [0, 2, 4, 6]),
        ("3/2", [3, 5]),
        ("7/2", [0]),
        ("SUN-TUE,sat", [0, 1, 2, 6]),
    ],
)
def test_weekdays_are_read(text, expected):
    assert expected == values(parse(f"0 0 * * {text}").weekday.bits)


def test_blanks_and_tabs_separate_and_are_trimmed():
    assert parse("0 9 * * 1") == parse(" \t0  9\t*   * 1\t ")


@pytest.mark.parametrize("alias", ["@daily", "@MIDNIGHT", " @Daily "])
def test_aliases_are_expanded_in_any_case(alias):
    assert parse("0 0 * * *") == parse(alias)


@pytest.mark.parametrize(
    ("text", "field", "position", "found"),
    [
        ("60 * * * *", "minute", 0, "'60'"),
        ("* 1,2,x * * *", "hour", 6, "'x'"),
        ("*  *  31,32 * *", "day of month", 9, "'32'"),
        ("* * * 1-13 *", "month", 8, "'13'"),
        ("* * * * monday", "day of week", 8, "'monday'"),
        ("* * * * 1#6", "day of week", 10, "'6'"),
        ("*/0 * * * *", "minute", 2, "'0'"),
        ("* * L-31 * *", "day of month", 6, "'31'"),
        ("* * 1, * *", "day of month", 6, "nothing"),
        ("0 0 1\N{NO-BREAK SPACE} * *", "day of month", 5, "'\\xa0'"),
        ("0 0 1 * *\n", "day of week", 9, "'\\n'"),
    ],
)
def test_a_refusal_names_field_position_and_what_was_found(text, field, position, found):
    error = refusal(text)
    assert (field, position) == (error.field, error.position)
    assert f"found {found}" in str(error)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("0 22-2 * * *", "22-23,0-2"),
        ("0 0 * * SAT-SUN", "6-7"),
        ("0 0 * * FRI-MON", "5-6,0-1"),
        ("@every 90s", "IntervalTrigger"),
        ("@every", "IntervalTrigger"),
        ("TZ=Europe/Paris 0 9 * * *", "timezone="),
        ("CRON_TZ=UTC 0 9 * * *", "timezone="),
        ("0 0 9 * * *", "seconds=True"),
        ("0 0 L5 * *", "L-5"),
        ("0 0 W15 * *", "15W"),
        ("0 0 * * L", "6L"),
        ("? * * * *", "day fields only"),
        ("* MON * * *", "day of week fields only"),
    ],
)
def test_a_refusal_hints_at_the_cure(text, hint):
    assert hint in str(refusal(text))


@pytest.mark.parametrize(
    "text", ["@reboot", "0 0 1-L * *", "0 0 L/2 * *", "0 0 LW-3 * *", "0 0 * * MON#2/2", "H(0-9) * * * *"]
)
def test_what_is_not_in_the_dialect_is_refused(text):
    refusal(text)


def test_ten_megabytes_are_refused_at_once_in_a_short_sentence():
    started = time.process_time()
    error = refusal("*" * 10_000_000)
    assert time.process_time() - started < 0.5
    assert len(str(error)) < 300


@pytest.mark.parametrize("expression", [None, 5, b"* * * * *", ["*"] * 5])
def test_what_is_not_text_is_refused(expression):
    with pytest.raises(TriggerError, match="is text"):
        CronTrigger(expression)


def test_six_fields_are_seconds_first_and_only_on_request():
    assert values(parse("10 0 9 * * *", seconds=True).second) == [10]
    assert values(parse("0 9 * * *", seconds=True).second) == [0]


class TestHashed:
    def test_h_is_a_value_of_the_field_that_depends_on_the_id_alone(self):
        once, again = (parse("H H H H H", schedule_id="report") for _ in range(2))
        assert once == again
        assert once != parse("H H H H H", schedule_id="another")

    @pytest.mark.parametrize("place", range(1, 6))
    def test_h_spreads_over_its_field(self, place):
        words = ["*"] * 5
        words[place - 1] = "H"
        masks = set()
        for number in range(1000):
            fields = parse(" ".join(words), schedule_id=f"schedule {number}")
            mask = (fields.minute, fields.hour, fields.day.bits, fields.month, fields.weekday.bits)[place - 1]
            assert mask.bit_count() == 1
            assert mask & FIELDS[place].full
            masks.add(mask)
        assert len(masks) == (60, 24, 28, 12, 7)[place - 1]

    def test_h_with_a_step_is_a_hashed_offset(self):
        minutes = values(parse("H/15 * * * *", schedule_id="report").minute)
        assert [later - earlier for earlier, later in pairwise(minutes)] == [15, 15, 15]

    def test_values_are_the_same_in_every_version(self):
        fields = parse("H H * * *", schedule_id="daily-report")
        assert values(fields.minute) == [50]
        assert values(fields.hour) == [14]

    def test_h_without_an_id_is_refused(self):
        with pytest.raises(TriggerError, match="id="):
            CronParser("H 5 * * *")
        with pytest.raises(TriggerError, match="id="):
            CronTrigger("H 5 * * *").next_fire(0)

    def test_binding_settles_h_and_leaves_everything_else_alone(self):
        trigger = CronTrigger("H 5 * * *", "Europe/Paris")
        assert trigger.bound_to("a").next_fire(0) is not None
        assert trigger.bound_to("a") == trigger.bound_to("a").bound_to("a")
        plain = CronTrigger("0 5 * * *")
        assert plain.bound_to("a") is plain

    def test_h_never_hides_a_day_that_does_not_exist(self):
        with pytest.raises(NeverFiresError):
            CronTrigger("H H 30 2 *")
