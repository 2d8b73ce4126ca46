"""Reading queues, on a real server and on fakeredis alike.

fk-blocking-ops: the fake serves readers and nothing else. It does not block, runs no worker and has no INFO, so every
suite about locks, scripts, expiry or waiting asks for the fixture `client`, which is a real server.
"""

from __future__ import annotations

from typing import Any

import fakeredis
import pytest

from scheduler.testing import ManualClock
from shared.errors import StoreError
from shared.keys import Keys
from shared.redisio.connection import check_server
from shared.redisio.presence import Presence, present
from shared.redisio.queues import QueueView, queues
from shared.redisio.records import stamp

NOW = 1_700_000_000_000


@pytest.fixture(params=["real", "fake"])
def any_client(request: pytest.FixtureRequest) -> Any:
    """A client of a real server, and then of the fake."""
    if request.param == "real":
        return request.getfixturevalue("client")
    return fakeredis.FakeRedis()


def read(client: Any, keys: Keys) -> dict[str, QueueView]:
    return {view.name: view for view in queues(client, keys, ManualClock(wall_ms=NOW))}


def test_nothing_is_there_at_first(any_client: Any, keys: Keys) -> None:
    assert read(any_client, keys) == {}


def test_qd_llen_misses_taken(any_client: Any, keys: Keys) -> None:
    """Waiting, taken, running, delayed, failed and expired are told apart."""
    any_client.sadd(keys.rq_queues, keys.rq_queue("mail"))
    any_client.rpush(keys.rq_queue("mail"), "a", "b", "c")
    any_client.hset(keys.rq_job("a"), "enqueued_at", stamp(NOW - 90_000))
    any_client.rpush(keys.rq_taken("mail"), "d")
    any_client.zadd(keys.rq_registry("wip", "mail"), {"e:1": NOW, "f:1": NOW})
    any_client.zadd(keys.rq_registry("scheduled", "mail"), {"g": NOW})
    any_client.zadd(keys.rq_registry("failed", "mail"), {"h": NOW, "i": NOW, "j": NOW})
    any_client.zadd(keys.expired_prefix + "mail", {"j": NOW})
    any_client.zadd(keys.rq_registry("finished", "mail"), {"k": NOW})
    any_client.sadd(keys.rq_queue_workers("mail"), "w")
    assert read(any_client, keys)["mail"] == QueueView(
        name="mail",
        depth=3,
        taken=1,
        running=2,
        scheduled=1,
        deferred=0,
        failed=2,
        expired=1,
        finished=1,
        oldest_age_s=90.0,
        workers=1,
    )


def test_qd_ghost_entries(any_client: Any, keys: Keys) -> None:
    """An entry whose job is gone counts as waiting and has no age."""
    any_client.sadd(keys.rq_queues, keys.rq_queue("mail"))
    any_client.rpush(keys.rq_queue("mail"), "ghost")
    view = read(any_client, keys)["mail"]
    assert (view.depth, view.oldest_age_s) == (1, None)


def test_queues_of_another_namespace_are_not_seen(any_client: Any, keys: Keys) -> None:
    any_client.sadd("other:rq:queues", "other:rq:queue:theirs")
    any_client.sadd(keys.rq_queues, keys.rq_queue("ours"))
    assert list(read(any_client, keys)) == ["ours"]


def test_presence_is_seen_until_it_is_taken_back(any_client: Any, keys: Keys) -> None:
    own = Presence(any_client, keys, "beat")
    own.say({"state": "leader", "error": ""})
    (record,) = present(any_client, keys, "beat")
    assert (record["state"], present(any_client, keys, "worker")) == ("leader", [])
    own.leave()
    assert present(any_client, keys, "beat") == []


def test_a_key_of_a_wrong_type_is_told_and_hides_no_other_queue(any_client: Any, keys: Keys) -> None:
    any_client.sadd(keys.rq_queues, keys.rq_queue("bad"), keys.rq_queue("good"), b"\xff")
    any_client.set(keys.rq_queue("bad"), "text")
    any_client.rpush(keys.rq_queue("good"), b"\xff")
    found = read(any_client, keys)
    assert (found["good"].depth, found["good"].error) == (1, None)
    assert (found["bad"].depth, "WRONGTYPE" in (found["bad"].error or "")) == (0, True)
    assert "\\xff" in found


def test_presence_that_can_not_be_read_hides_no_other(any_client: Any, keys: Keys) -> None:
    Presence(any_client, keys, "beat").say({"state": "leader", "error": b"\xff"})  # type: ignore[dict-item]
    any_client.set(keys.presence("beat", "elsewhere:1"), "text")
    any_client.zadd(keys.presences("beat"), {"elsewhere:1": NOW, b"\xff": NOW})
    sound, broken = sorted(present(any_client, keys, "beat"), key=lambda record: record["host"] == "elsewhere")
    assert (sound["state"], sound["error"]) == ("leader", "\\xff")
    assert "WRONGTYPE" in broken["error"]


def test_the_fake_can_not_pass_for_a_server() -> None:
    """What a beat checks at its start, the fake has not: it is refused, not trusted."""
    with pytest.raises(StoreError):
        check_server(fakeredis.FakeRedis(), Keys())
