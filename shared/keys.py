"""Every Redis key, spelled once.

Our keys live under one prefix, RQ's under another; both follow from the namespace. Scripts that build keys inside Redis
are handed the `…_prefix` values from here, so that no spelling stands in Lua.

    namespace ""      rqbeat:…          rq:…           RQ's own default: its tools work as they are
    namespace "shop"  shop:rqbeat:…     shop:rq:…      two stacks on one Redis never meet
    namespace "{a}"   {a}:rqbeat:…      {a}:rq:…       one hash tag: one slot of a Redis Cluster
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.errors import ConfigurationError

_NAMESPACE = re.compile(r"[A-Za-z0-9_.{}-]{1,64}")


@dataclass(frozen=True, slots=True)
class Keys:
    """The names of all keys under two prefixes, given without their closing colon."""

    ours: str = "rqbeat"
    rq: str = "rq"

    @classmethod
    def for_namespace(cls, namespace: str = "", rq_prefix: str = "rq") -> Keys:
        """The keys of a namespace. `rq_prefix` is RQ's prefix where there is no namespace."""
        if not namespace:
            return cls(rq=rq_prefix)
        if not _NAMESPACE.fullmatch(namespace):
            raise ConfigurationError(
                f"namespace: 1 to 64 of letters, digits and _ . - {{ }}, got {namespace!r}; RQ's keys allow no others"
            )
        return cls(ours=f"{namespace}:rqbeat", rq=f"{namespace}:rq")

    @property
    def share_a_slot(self) -> bool:
        """Whether one hash tag puts every key, ours and RQ's, into one slot of a Redis Cluster."""
        tags = {_hash_tag(self.ours), _hash_tag(self.rq)}
        return len(tags) == 1 and None not in tags

    # The timetable and the schedules.

    @property
    def timetable(self) -> str:
        """zset: schedule id → due time, ms."""
        return f"{self.ours}:timetable"

    @property
    def schedules(self) -> str:
        """set: the ids of all schedules, whatever their status."""
        return f"{self.ours}:schedules"

    @property
    def declared(self) -> str:
        """set: the ids of schedules that an app declares, so that a start need not look at all."""
        return f"{self.ours}:declared"

    @property
    def schedule_prefix(self) -> str:
        """+ id → hash: a schedule's definition, revision, status, cursor and the fixed part of its jobs."""
        return f"{self.ours}:schedule:"

    @property
    def stats_prefix(self) -> str:
        """+ id → hash: `runs` and `errors`, written by workers at the end of a run."""
        return f"{self.ours}:stats:"

    @property
    def outstanding_prefix(self) -> str:
        """+ id → zset: ids of jobs that may still be queued or running, by nominal time."""
        return f"{self.ours}:outstanding:"

    @property
    def waiting_prefix(self) -> str:
        """+ id → string: a fire that waits for an earlier job to end (overlap buffer)."""
        return f"{self.ours}:waiting:"

    @property
    def waiters(self) -> str:
        """zset: the ids of schedules with a waiting fire, by its due time."""
        return f"{self.ours}:waiters"

    @property
    def stopping(self) -> str:
        """zset: ids of running jobs that were replaced and are to be stopped, by when that was decided."""
        return f"{self.ours}:stopping"

    @property
    def resumptions(self) -> str:
        """zset: ids of schedules that are paused for a while, by the ms when they are to be resumed."""
        return f"{self.ours}:resumptions"

    @property
    def completed(self) -> str:
        """zset: ids of completed schedules made at run time, by the ms when they are forgotten."""
        return f"{self.ours}:completed"

    @property
    def fired_prefix(self) -> str:
        """+ id:ms → string: the job id a nominal time was enqueued under; the dedupe key."""
        return f"{self.ours}:fired:"

    # The ledger.

    @property
    def ledger(self) -> str:
        """list: every decision, over all schedules, the newest last; bounded."""
        return f"{self.ours}:ledger"

    @property
    def ledger_prefix(self) -> str:
        """+ id → list: a schedule's own latest decisions, bounded."""
        return f"{self.ours}:ledger:"

    @property
    def control(self) -> str:
        """stream: who changed what, when and why; bounded."""
        return f"{self.ours}:control"

    # Beats and workers.

    @property
    def leader(self) -> str:
        """hash: owner, term, beat counter."""
        return f"{self.ours}:leader"

    @property
    def wake(self) -> str:
        """channel: something changed that a waiting beat should look at."""
        return f"{self.ours}:wake"

    @property
    def app_version(self) -> str:
        """string: the version of the app whose declared schedules are stored."""
        return f"{self.ours}:app-version"

    @property
    def promoted(self) -> str:
        """string with a TTL: who promoted due retries and delayed jobs lately."""
        return f"{self.ours}:promoted"

    def presence(self, role: str, process: str) -> str:
        """hash with a TTL: what one process says of itself."""
        return f"{self.ours}:presence:{role}:{process}"

    def presences(self, role: str) -> str:
        """zset: the processes of a role, by the second when they will have been silent for too long."""
        return f"{self.ours}:presences:{role}"

    # Jobs.

    @property
    def live_prefix(self) -> str:
        """+ queue → zset: ids of jobs that were pushed and have not begun to run, by the ms of the push."""
        return f"{self.ours}:live:"

    @property
    def suspects(self) -> str:
        """zset: ids of jobs that seem to be in no list, by the ms when that was first seen."""
        return f"{self.ours}:suspects"

    @property
    def dispatch_prefix(self) -> str:
        """+ dedupe key → string: the id of the job dispatched under it."""
        return f"{self.ours}:dispatch:"

    def once(self, job_key: str, mark: str) -> str:
        """string: the state of one once-mark of a job."""
        return f"{self.ours}:once:{job_key}:{mark}"

    def checkpoint(self, job_key: str) -> str:
        """string: what a job wrote down to go on from."""
        return f"{self.ours}:checkpoint:{job_key}"

    def rate(self, bucket: str) -> str:
        """string: when a rate limit's bucket would be full again, µs."""
        return f"{self.ours}:rate:{bucket}"

    @property
    def expired_prefix(self) -> str:
        """+ queue → zset: ids of failed jobs that were past their deadline, by when they are forgotten."""
        return f"{self.ours}:expired:"

    # RQ's.

    @property
    def rq_queues(self) -> str:
        """set: the keys of all queues."""
        return f"{self.rq}:queues"

    @property
    def rq_queue_prefix(self) -> str:
        """+ queue → list: ids of waiting jobs."""
        return f"{self.rq}:queue:"

    @property
    def rq_job_prefix(self) -> str:
        """+ job id → hash: RQ's record of a job."""
        return f"{self.rq}:job:"

    @property
    def rq_scheduled_prefix(self) -> str:
        """+ queue → zset: ids of delayed jobs and retries, by the second when they are due."""
        return f"{self.rq}:scheduled:"

    @property
    def rq_channel_prefix(self) -> str:
        """+ worker's name → channel: commands to a worker."""
        return f"{self.rq}:pubsub:"

    @property
    def rq_workers(self) -> str:
        """set: the keys of all workers."""
        return f"{self.rq}:workers"

    def rq_job(self, job_id: str) -> str:
        return f"{self.rq_job_prefix}{job_id}"

    def rq_results(self, job_id: str) -> str:
        """stream: the results of a job's runs."""
        return f"{self.rq}:results:{job_id}"

    def rq_executions(self, job_id: str) -> str:
        """zset: a job's runs that have not ended."""
        return f"{self.rq}:executions:{job_id}"

    def rq_execution(self, job_id: str, token: str) -> str:
        """hash: one run while it lasts."""
        return f"{self.rq}:execution:{job_id}:{token}"

    def rq_worker_executions(self, worker: str) -> str:
        """set: the runs of a worker, as `id:token`."""
        return f"{self.rq}:worker:{worker}:executions"

    def rq_queue(self, queue: str) -> str:
        return f"{self.rq_queue_prefix}{queue}"

    def rq_cleaning(self, queue: str) -> str:
        """string with a TTL: a worker is looking after this queue."""
        return f"{self.rq}:clean_registries:{queue}"

    def rq_taken(self, queue: str) -> str:
        """list: ids popped by a worker that has not begun to run them."""
        return f"{self.rq_queue(queue)}:intermediate"

    def rq_registry(self, kind: str, queue: str) -> str:
        """zset of one of RQ's registries; `kind` is wip, scheduled, deferred, failed, finished or canceled."""
        return f"{self.rq}:{kind}:{queue}"

    def rq_queue_workers(self, queue: str) -> str:
        """set: the keys of the workers of a queue."""
        return f"{self.rq}:workers:{queue}"


def _hash_tag(key: str) -> str | None:
    """What Redis Cluster hashes of a key: what stands between its first braces, if anything does."""
    found = re.search(r"\{([^}]+)\}", key)
    return found[1] if found else None
