"""The vocabulary that the beat and the workers agree on: what a job is, how it travels, what its keys are called.

Rule of this package: it imports neither `scheduler` nor `worker`, and nothing happens when it is imported: no
connection, no environment read, no logging set-up. Its own arrows go down this list:

    job                     the user's `Job`: a façade over everything below
    outbox                  the port through which a dispatched job leaves the process
    redisio                 the only place that imports redis
    settings                where values come from: flag, environment, file, default
    payload, registry       what travels, and which names may be run
    codec, retry, ids, keys, instants, clock, errors
"""

from shared.job import Job, JobHandle
from shared.retry import Retry

__all__ = ["Job", "JobHandle", "Retry"]
