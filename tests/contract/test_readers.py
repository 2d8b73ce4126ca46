"""Reading schedules and the ledger when something in Redis is junk: it is shown by its name, and hides nothing else."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from scheduler.readers import UNREADABLE
from scheduler.schedule import definition_digest
from scheduler.selfaudit import findings
from shared.errors import ConfigurationError

Stage = Any


@pytest.fixture
def two(stage: Stage) -> Stage:
    """A store with the schedules `bad` and `good`."""
    stage.add("bad")
    stage.add("good")
    return stage


@pytest.mark.parametrize("field", ["last", "cursor", "since"])
@pytest.mark.parametrize("junk", ["abc", b"\xff", "1e400", "9" * 30, "999999999999999"])
def test_a_number_that_is_none_is_told_by_its_name(two: Stage, field: str, junk: Any) -> None:
    two.client.hset(two.keys.schedule_prefix + "bad", field, junk)
    bad, good = (two.reader.schedule(name) for name in ("bad", "good"))
    assert f"its {field} can't be read" in bad.error
    assert bad.to_json()["trigger"] == good.to_json()["trigger"]
    assert {view.id for view in two.reader.schedules()} == {"bad", "good"}


@pytest.mark.parametrize("field", ["status", "owner", "error", "note"])
def test_bytes_that_are_no_text_are_shown_as_escapes(two: Stage, field: str) -> None:
    two.client.hset(two.keys.schedule_prefix + "bad", field, b"\xff")
    assert getattr(two.reader.schedule("bad"), field) == "\\xff"


@pytest.mark.parametrize("junk", [b"", b"junk", b"\xff", msgpack.packb([1, 2]), msgpack.packb({"v": 1})])
def test_a_definition_that_is_none_is_told(two: Stage, junk: bytes) -> None:
    two.client.hset(two.keys.schedule_prefix + "bad", "definition", junk)
    assert "definition can't be read" in two.reader.schedule("bad").error
    assert len(two.reader.schedules()) == 2
    with pytest.raises(ConfigurationError, match="'bad'"):
        two.reader.definition("bad")


def test_a_schedule_key_of_a_wrong_type_stops_no_other(two: Stage) -> None:
    two.client.set(two.keys.schedule_prefix + "x", "foo")
    two.client.sadd(two.keys.schedules, "x")
    assert "WRONGTYPE" in two.reader.schedule("x").error
    stored = two.reader.digests(["x", "good", "absent"])
    assert (stored["x"], stored["absent"]) == ("", "")
    assert stored["good"] == definition_digest(two.reader.definition("good"))


def test_stats_of_a_wrong_type_or_junk_are_told(two: Stage) -> None:
    two.client.set(two.keys.stats_prefix + "bad", "x")
    two.client.hset(two.keys.stats_prefix + "good", "errors", "many")
    assert "its runs can't be read: WRONGTYPE" in two.reader.schedule("bad").error
    assert "its errors can't be read: many" in two.reader.schedule("good").error


def test_what_can_be_no_id_is_listed_and_is_none(two: Stage) -> None:
    two.client.sadd(two.keys.schedules, b"\xff")
    (view,) = (view for view in two.reader.schedules() if view.schedule is None)
    assert (view.id, view.error) == ("\\xff", "it can't be read: its id is not UTF-8 text")
    assert two.reader.ids() == ["bad", "good"]
    assert set(two.reader.walk()) == {"bad", "good"}


@pytest.mark.parametrize(
    "junk",
    [
        b"junk",
        b"\xff",
        b"",
        msgpack.packb(list(range(10))),
        msgpack.packb(["good", 1e300, 1, 1, 1, "enqueued", "", "scheduled", "j", 1]),
        msgpack.packb(["good", 1, 1, 1, "late", "enqueued", "", "scheduled", "j", 1]),
    ],
)
def test_a_ledger_entry_that_is_none_stands_in_its_place(stage: Stage, junk: bytes) -> None:
    good = stage.add("good")
    stage.commit(stage.plan(good))
    count = len(stage.ledger())
    stage.client.rpush(stage.keys.ledger_prefix + "good", junk)
    stage.client.rpush(stage.keys.ledger, junk, b"junk")
    own, overall = stage.reader.history("good", most=10_000), stage.reader.history(most=10_000)
    assert [entry.outcome for entry in own].count(UNREADABLE) == 1
    assert [entry.outcome for entry in overall].count(UNREADABLE) == 2
    assert (len(own), len(overall)) == (count + 1, count + 2)
    assert all(entry.to_json() for entry in (*own, *overall))
    assert findings(stage.reader, "good") == []


def test_a_ledger_of_a_wrong_type_is_told(stage: Stage) -> None:
    stage.add("bad")
    stage.client.set(stage.keys.ledger_prefix + "bad", "text")
    (entry,) = stage.reader.history("bad")
    assert (entry.schedule, entry.outcome) == ("bad", UNREADABLE)
    assert "WRONGTYPE" in entry.reason
