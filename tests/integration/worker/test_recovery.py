"""Maintenance against a real server on a clock that the test moves: what is recovered, and what is left alone."""

from __future__ import annotations

from typing import Any

import bench_jobs as jobs
import pytest
import redis

from shared.clock import SystemClock
from shared.keys import Keys
from shared.redisio.dispatch import Promoter
from shared.redisio.intake import Intake
from shared.redisio.presence import Presence
from shared.redisio.runs import Runs
from worker.chores import Chores
from worker.guard import GuardedWorker


class MovedClock(SystemClock):
    """The machine's wall clock, and a monotonic one that moves when told."""

    moved = 0.0

    def monotonic(self) -> float:
        return self.moved


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
def intake(client: redis.Redis, keys: Keys) -> Intake:
    return Intake(client, keys, "default")


@pytest.fixture
def worker(client: redis.Redis, keys: Keys, intake: Intake, clock: MovedClock) -> GuardedWorker:
    chores = Chores(Promoter(client, keys), Presence(client, keys, "worker"), "default", clock)
    return GuardedWorker(
        "default", connection=client, intake=intake, runs=Runs(client, keys), chores=chores, clock=clock
    )


@pytest.fixture
def maintain(worker: GuardedWorker, clock: MovedClock) -> Any:
    def run() -> None:
        """Two looks, ten seconds apart."""
        for _ in range(2):
            worker.recovery()
            clock.moved += 10

    return run


def pop(intake: Intake) -> None:
    assert intake.pop(None)


def lease(client: redis.Redis, keys: Keys, job_id: str, run: str, *, ended: bool) -> None:
    client.zadd(keys.rq_registry("wip", "default"), {f"{job_id}:{run}": 1 if ended else 2**40})
    client.zadd(keys.rq_executions(job_id), {run: 2**40})


def test_one_look_recovers_nothing(client: redis.Redis, keys: Keys, intake: Intake, worker: GuardedWorker) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    worker.recovery()
    assert client.lrange(keys.rq_taken("default"), 0, -1) == [job_id.encode()]


def test_what_never_started_goes_back_to_the_front(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any
) -> None:
    first, second = jobs.Sync.dispatch().id, jobs.Sync.dispatch().id
    pop(intake)
    maintain()
    assert client.lrange(keys.rq_queue("default"), 0, -1) == [first.encode(), second.encode()]


def test_what_a_living_worker_holds_is_left_alone(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any
) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    lease(client, keys, job_id, "run", ended=False)
    maintain()
    assert client.lrange(keys.rq_taken("default"), 0, -1) == [job_id.encode()]


@pytest.mark.parametrize(("job", "state", "left"), [(jobs.Sync, "failed", None), (jobs.SyncRetried, "queued", b"0")])
def test_an_abandoned_run_is_a_failed_attempt(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any, status: Any, job: Any, state: str, left: Any
) -> None:
    job_id = job.dispatch().id
    pop(intake)
    assert intake.claim(job_id, "dead", "run")
    lease(client, keys, job_id, "run", ended=True)
    maintain()
    assert (status(job_id), client.hget(keys.rq_job(job_id), "retries_left")) == (state, left)
    assert client.zcard(keys.rq_registry("wip", "default")) == 0


def test_the_old_lease_of_a_job_that_runs_again_harms_it_not(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any, status: Any
) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    assert intake.claim(job_id, "alive", "second")
    lease(client, keys, job_id, "first", ended=True)
    lease(client, keys, job_id, "second", ended=False)
    maintain()
    assert status(job_id) == "started"
    assert client.zrange(keys.rq_registry("wip", "default"), 0, -1) == [f"{job_id}:second".encode()]


def test_a_claim_is_one_workers_and_may_be_repeated_by_it(intake: Intake, effects: Any) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    first = intake.claim(job_id, "a", "run-a")
    assert first is not None
    again = intake.claim(job_id, "a", "run-a")
    assert again is not None
    assert (first.attempt, again.attempt) == (1, 1)
    assert intake.claim(job_id, "b", "run-b") is None
    assert intake.running_as(job_id) == "run-a"


def test_a_corrupt_record_of_an_abandoned_run_is_failed(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any, status: Any, reason: Any
) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    assert intake.claim(job_id, "dead", "run")
    client.hset(keys.rq_job(job_id), "timeout", "soon")
    lease(client, keys, job_id, "run", ended=True)
    maintain()
    assert status(job_id) == "failed"
    assert "timeout" in reason(job_id)


def test_a_taken_job_whose_count_is_junk_is_failed(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any, status: Any, reason: Any
) -> None:
    job_id = jobs.Sync.dispatch().id
    client.hset(keys.rq_job(job_id), "put_backs", "many")
    pop(intake)
    maintain()
    assert (status(job_id), client.llen(keys.rq_taken("default"))) == ("failed", 0)
    assert "put_backs" in reason(job_id)


@pytest.mark.parametrize("kind", ["wip", "failed", "finished"])
def test_a_registry_of_the_wrong_type_keeps_nothing_else_from_being_recovered(
    client: redis.Redis, keys: Keys, intake: Intake, maintain: Any, kind: str
) -> None:
    job_id = jobs.Sync.dispatch().id
    pop(intake)
    client.set(keys.rq_registry(kind, "default"), "no zset")
    maintain()
    assert client.lrange(keys.rq_queue("default"), 0, -1) == [job_id.encode()]
