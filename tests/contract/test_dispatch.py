"""What dispatching writes, in how many round trips, and what a lost reply or a stop in the middle leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis

from shared import Job
from shared.errors import StoreRefusedError, StoreUnavailableError
from shared.keys import Keys
from shared.outbox import using_outbox
from shared.redisio.dispatch import AT_ONCE, RedisOutbox
from shared.redisio.scripts import Script


class Sent(Job):
    name = "dispatch-sent"
    queue = "sent"

    def handle(self, number: int = 0) -> None: ...


@pytest.fixture(autouse=True)
def outbox(client: redis.Redis, keys: Keys) -> Iterator[RedisOutbox]:
    outbox = RedisOutbox(client, keys)
    with using_outbox(outbox):
        yield outbox


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What clients of this process write to a socket, one item for each time that they do."""
    found: list[bytes] = []
    original = redis.connection.AbstractConnection.send_packed_command

    def send(self: Any, command: Any, *args: Any, **kwargs: Any) -> Any:
        found.append(b"".join([command] if isinstance(command, bytes) else command))
        return original(self, command, *args, **kwargs)

    monkeypatch.setattr(redis.connection.AbstractConnection, "send_packed_command", send)
    return found


def queued(client: redis.Redis, keys: Keys, queue: str = "sent") -> list[str]:
    return [job_id.decode() for job_id in client.lrange(keys.rq_queue(queue), 0, -1)]  # type: ignore[union-attr]


def calls(count: int) -> list[Any]:
    return [Sent.arguments(number) for number in range(count)]


@pytest.mark.parametrize("options", [{}, {"dedupe_key": "k"}, {"delay": 5, "deadline": 4e9, "at_front": True}])
def test_a_dispatch_is_one_round_trip(written: list[bytes], options: dict[str, Any]) -> None:
    Sent.dispatch()
    del written[:]
    Sent.options(**options).dispatch(1)
    assert [b"EVALSHA" in command for command in written] == [True]


def test_the_first_dispatch_of_a_process_is_one_too(client: redis.Redis, written: list[bytes]) -> None:
    client.script_flush()
    del written[:]
    Sent.dispatch(1)
    assert len(written) == 1


def test_a_script_that_was_forgotten_is_sent_again(client: redis.Redis, keys: Keys, written: list[bytes]) -> None:
    Sent.dispatch()
    client.script_flush()
    del written[:]
    handle = Sent.dispatch(1)
    assert any(b"EVAL\r\n" in command for command in written)
    assert queued(client, keys)[1:] == [handle.id]


def test_many_are_one_round_trip_for_each_thousand_and_stay_in_order(
    client: redis.Redis, keys: Keys, written: list[bytes]
) -> None:
    Sent.dispatch()
    del written[:]
    handles = Sent.dispatch_many(calls(2001))
    assert len(written) == 3
    assert queued(client, keys)[1:] == [handle.id for handle in handles]
    assert all(handle.created for handle in handles)
    assert client.zcard(keys.live_prefix + "sent") == 2002


def test_many_at_the_front_come_out_as_if_sent_one_by_one(client: redis.Redis, keys: Keys) -> None:
    handles = Sent.options(at_front=True).dispatch_many(calls(3))
    assert queued(client, keys) == [handle.id for handle in reversed(handles)]


def test_many_that_are_delayed_are_scheduled_with_their_queue_known(client: redis.Redis, keys: Keys) -> None:
    handles = Sent.options(delay=60).dispatch_many(calls(3))
    assert client.zcard(keys.rq_scheduled_prefix + "sent") == 3
    assert client.smembers(keys.rq_queues) == {keys.rq_queue("sent").encode()}
    assert [handle.status() for handle in handles] == ["scheduled"] * 3


def test_of_many_under_one_dedupe_key_one_is_sent(client: redis.Redis, keys: Keys) -> None:
    many = Sent.options(dedupe_key="k")
    first, *others = many.dispatch_many(calls(3))
    again = many.dispatch(9)
    assert (first.created, [other.created for other in others], again.created) == (True, [False, False], False)
    assert {first.id, *(other.id for other in others), again.id} == {first.id}
    assert queued(client, keys) == [first.id]


def lose(monkeypatch: pytest.MonkeyPatch, *, after: int) -> None:
    """Have the reply of one call be lost, once so many have come."""
    original, left = Script._reply, [after]

    def reply(self: Script, connection: Any, call: Any) -> Any:
        found = original(self, connection, call)
        left[0] -= 1
        if left[0] == -1:
            raise redis.exceptions.ConnectionError("lost")
        return found

    monkeypatch.setattr(Script, "_reply", reply)


@pytest.mark.parametrize("after", [0, 1, 2])
@pytest.mark.parametrize("options", [{}, {"delay": 60}, {"at_front": True}])
def test_many_whose_reply_was_lost_are_there_once(
    client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch, after: int, options: dict[str, Any]
) -> None:
    lose(monkeypatch, after=after)
    handles = Sent.options(**options).dispatch_many(calls(3 * AT_ONCE))
    found = queued(client, keys) + [i.decode() for i in client.zrange(keys.rq_scheduled_prefix + "sent", 0, -1)]
    assert (len(found), set(found)) == (3 * AT_ONCE, {handle.id for handle in handles})
    assert (len(handles), all(handle.created for handle in handles)) == (3 * AT_ONCE, True)


def test_one_under_a_dedupe_key_whose_reply_was_lost_was_created(monkeypatch: pytest.MonkeyPatch) -> None:
    lose(monkeypatch, after=0)
    assert Sent.options(dedupe_key="k").dispatch().created


def test_with_redis_gone_in_the_middle_the_thousands_before_are_there(
    client: redis.Redis, keys: Keys, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, sent = RedisOutbox._packed, []

    def packed(self: RedisOutbox, requests: Any) -> Any:
        if len(sent) == 3:
            raise StoreUnavailableError("gone")
        sent.append(requests)
        return original(self, requests)

    monkeypatch.setattr(RedisOutbox, "_packed", packed)
    with pytest.raises(StoreUnavailableError):
        Sent.dispatch_many(calls(5 * AT_ONCE))
    assert len(queued(client, keys)) % AT_ONCE == 0
    assert 0 < len(queued(client, keys)) < 5 * AT_ONCE


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("rq_queue", {}),
        ("live", {}),
        ("scheduled", {}),
        ("dedupe", {"dedupe_key": "k"}),
    ],
)
def test_a_key_of_a_wrong_type_is_told_and_nothing_is_written(
    client: redis.Redis, keys: Keys, key: str, options: dict[str, Any]
) -> None:
    broken = {
        "rq_queue": keys.rq_queue("sent"),
        "live": keys.live_prefix + "sent",
        "scheduled": keys.rq_scheduled_prefix + "sent",
        "dedupe": keys.dispatch_prefix + "k",
    }[key]
    client.hset(broken, "of", "no use")
    with pytest.raises(StoreRefusedError, match=f"nothing was dispatched: {broken}"):
        Sent.options(**options).dispatch_many(calls(3))
    assert client.keys("*") == [broken.encode()]


def test_jobs_of_one_call_may_differ_in_all_but_their_class(
    client: redis.Redis, keys: Keys, outbox: RedisOutbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port takes any requests together, though no caller of today sends such."""
    gathered: list[Any] = []
    monkeypatch.setattr(RedisOutbox, "send", lambda _self, requests: gathered.extend(requests) or [])
    Sent.options(queue="a").dispatch_many(calls(1))
    Sent.options(queue="b", delay=60, timeout=7).dispatch_many(calls(1))
    Sent.options(queue="b", at_front=True).dispatch_many(calls(2))
    monkeypatch.undo()
    outbox.send(gathered)
    ids = [request.job_id for request in gathered]
    assert (queued(client, keys, "a"), queued(client, keys, "b")) == (ids[:1], [ids[3], ids[2]])
    assert client.hget(keys.rq_job(ids[1]), "timeout") == b"7"
