"""Eager mode: jobs run in this process, at once, and what they raise reaches the caller. For tests of apps.

Within `eager()` a dispatch runs its job before it returns; from inside a running event loop, a coroutine becomes a task
of that loop. `SchedulerManager.start` runs the real planner over the store in memory, on the real clock, beside the
tasks of the loop; what scheduled jobs raised is raised by `stop`. Nothing is sent anywhere.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.memory import MemoryStore
from scheduler.planner import Fire, plan
from scheduler.ports import Lease, Planned
from scheduler.schedule import Schedule
from shared import registry
from shared.arguments import parameters_of
from shared.clock import Clock
from shared.context import OnDoubt
from shared.outbox import Receipt, Request, using_outbox
from shared.payload import Call, FireContext, pack_call, unpack_call

LONGEST_WAIT = 1.0
MOST_DUE = 1000


class EagerContext:
    """`self.ctx` of a job that runs eagerly: its marks and checkpoint last as long as the job."""

    def __init__(self, key: str, fire: FireContext) -> None:
        self.key = key
        self.attempt = 1
        self.schedule = fire.schedule
        self.nominal = None if fire.nominal is None else fire.nominal / 1000
        self.deadline = None if fire.deadline is None else fire.deadline / 1000
        self.kind: str = fire.kind
        self.last_error: str | None = None
        self.checkpoint: Mapping[str, Any] = {}
        self._done: set[str] = set()

    def save_checkpoint(self, **progress: Any) -> None:
        self.checkpoint = progress

    @contextmanager
    def once(self, mark: str, on_doubt: OnDoubt = "raise") -> Iterator[bool]:  # noqa: ARG002 - nothing is killed here
        yield mark not in self._done
        self._done.add(mark)


class EagerOutbox:
    """Runs what it is handed."""

    is_eager = True

    def __init__(self) -> None:
        self.results: dict[str, Any] = {}
        self._held: dict[str, str] = {}

    def send(self, requests: Sequence[Request]) -> list[Receipt]:
        return [self._send(request) for request in requests]

    def status(self, job_id: str) -> str | None:
        return "finished" if job_id in self.results else None

    def result(self, job_id: str, timeout: float) -> Any:  # noqa: ARG002 - it has run already
        return self.results[job_id]

    def _send(self, request: Request) -> Receipt:
        if request.dedupe_key and request.dedupe_key in self._held:
            return Receipt(self._held[request.dedupe_key], created=False)
        if request.dedupe_key:
            self._held[request.dedupe_key] = request.job_id
        returned = run_here(request.call, request.job_id, FireContext(kind="dispatch", enqueued=0))
        self.results[request.job_id] = _settle(returned) if inspect.iscoroutine(returned) else returned
        return Receipt(request.job_id, created=True)


class EagerBeat:
    """A beat, and the jobs that it fires, as tasks of the running event loop."""

    def __init__(self, schedules: Sequence[Schedule], clock: Clock) -> None:
        self._clock = clock
        self._store = MemoryStore(clock)
        self._lease = self._store.lease.claim("eager", self._store.lease.read()) or Lease(owner="", term="")
        self._jobs: set[asyncio.Task[Any]] = set()
        self._errors: list[Exception] = []
        for schedule in schedules:
            self._store.add(schedule)
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End it, let the running jobs end, and raise what one of them raised."""
        self._task.cancel()
        await asyncio.gather(self._task, *self._jobs, return_exceptions=True)
        if self._errors:
            raise self._errors[0]

    async def _run(self) -> None:
        while True:
            for schedule, fire in self._decide():
                self._start(schedule, fire)
            head = self._store.head()
            wait = LONGEST_WAIT if head is None else (head - self._clock.now_ms()) / 1000
            await asyncio.sleep(min(LONGEST_WAIT, max(0.0, wait)))

    def _decide(self) -> list[tuple[Schedule, Fire]]:
        """Plan and commit what is due; the fires that were enqueued."""
        batch = self._store.due(self._clock.now_ms(), MOST_DUE, MOST_DUE)
        entries = [self._store.entries[row.id] for row in batch.rows]
        plans = [
            Planned(schedule=item.schedule, revision=item.revision, plan=plan(item.schedule, item.cursor, batch.now))
            for item in entries
        ]
        self._store.commit(self._lease, plans)
        fires = [(one.schedule, made) for one in plans for made in one.plan.decisions if isinstance(made, Fire)]
        return [(schedule, fire) for schedule, fire in fires if self._store.firing.jobs.get(fire.job_id) == "queued"]

    def _start(self, schedule: Schedule, fire: Fire) -> None:
        self._store.firing.jobs[fire.job_id] = "started"
        task = asyncio.get_running_loop().create_task(self._perform(schedule, fire))
        self._jobs.add(task)
        task.add_done_callback(self._jobs.discard)

    async def _perform(self, schedule: Schedule, fire: Fire) -> None:
        try:
            returned = run_here(schedule.call, fire.job_id, fire.context)
            if inspect.isawaitable(returned):
                await returned
        except Exception as error:  # noqa: BLE001 - kept for the one who stops the beat
            self._errors.append(error)
        finally:
            self._store.firing.jobs.pop(fire.job_id, None)


@contextmanager
def eager() -> Iterator[EagerOutbox]:
    """Run dispatched and scheduled jobs in this process within the block."""
    outbox = EagerOutbox()
    with using_outbox(outbox):
        yield outbox


def run_here(call: Call, job_id: str, fire: FireContext) -> Any:
    """Run a job's handler; what it returns, which may be a coroutine. Arguments travel as they would to a worker."""
    travelled = unpack_call(pack_call(call))
    job = registry.jobs.find(travelled.job)()
    job.ctx = EagerContext(job_id, fire)
    args, kwargs = parameters_of(type(job)).rebuild(travelled.args, travelled.kwargs)
    return job.handle(*args, **kwargs)


def _settle(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine; the task that will have it, where an event loop runs already."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return loop.create_task(work)
