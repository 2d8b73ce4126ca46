"""Reading queues without touching them: RQ's own counters clean registries as they count, and so move jobs.

What each number means: `depth` waits, `taken` was popped by a worker that has not begun to run it, `running` runs,
`scheduled` is delayed or waits for a retry, `expired` is the part of the failed registry that was dropped at its
deadline and counts in no other column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, cast

from shared.clock import Clock
from shared.keys import Keys
from shared.redisio.connection import Client, shown, store_errors

_REGISTRIES = ("wip", "scheduled", "deferred", "failed", "finished")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueView:
    """One queue in numbers. `oldest_age_s` is how long the job at its head has waited, None when it is empty.

    What can't be read counts as 0, and `error` says why.
    """

    name: str
    depth: int
    taken: int
    running: int
    scheduled: int
    deferred: int
    failed: int
    expired: int
    finished: int
    oldest_age_s: float | None
    workers: int
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The row of `queues --json`."""
        return asdict(self)


def queues(client: Client, keys: Keys, clock: Clock) -> list[QueueView]:
    """All queues that RQ knows, by name. Three round trips, whatever their number; raises StoreError."""
    with store_errors():
        names = sorted(shown(key).removeprefix(keys.rq_queue_prefix) for key in client.smembers(keys.rq_queues))
        counts = _count(client, keys, names)
        ages = _head_ages(client, keys, [row[0] for row in counts], clock.now_ms())
    return [_view(name, row, age) for name, row, age in zip(names, counts, ages, strict=True)]


def _count(client: Client, keys: Keys, names: Sequence[str]) -> list[list[Any]]:
    """For each queue: the id at its head, depth, taken, workers, expired, then the registries."""
    pipe = client.pipeline(transaction=False)
    for name in names:
        pipe.lindex(keys.rq_queue(name), 0)
        pipe.llen(keys.rq_queue(name))
        pipe.llen(keys.rq_taken(name))
        pipe.scard(keys.rq_queue_workers(name))
        pipe.zcard(keys.expired_prefix + name)
        for registry in _REGISTRIES:
            pipe.zcard(keys.rq_registry(registry, name))
    replies = pipe.execute(raise_on_error=False)
    width = 5 + len(_REGISTRIES)
    return [replies[start : start + width] for start in range(0, len(replies), width)]


def _head_ages(client: Client, keys: Keys, heads: Sequence[Any], now: int) -> list[float | None]:
    pipe = client.pipeline(transaction=False)
    for head in heads:
        pipe.hget(keys.rq_job(shown(head) if isinstance(head, bytes) else ""), "enqueued_at")
    return [_age(stamp, now) for stamp in pipe.execute(raise_on_error=False)]


def _age(stamp: Any, now: int) -> float | None:
    try:
        enqueued = datetime.strptime(shown(stamp), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except (TypeError, ValueError, AttributeError):
        return None
    return round(max(0.0, now / 1000 - enqueued.timestamp()), 3)


def _view(name: str, row: Sequence[Any], age: float | None) -> QueueView:
    """A key of the wrong type is one queue's trouble, and must not hide the others."""
    errors = [str(cell) for cell in row if isinstance(cell, Exception)]
    _, depth, taken, workers, expired, running, scheduled, deferred, failed, finished = (
        0 if isinstance(cell, Exception) else cell for cell in row
    )
    return QueueView(
        name=name,
        depth=depth,
        taken=taken,
        running=running,
        scheduled=scheduled,
        deferred=deferred,
        failed=max(0, cast("int", failed) - expired),
        expired=expired,
        finished=finished,
        oldest_age_s=age,
        workers=workers,
        error=errors[0] if errors else None,
    )
