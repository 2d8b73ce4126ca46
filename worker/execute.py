"""One run of one job: `run` is the only callable that RQ calls, and this module is all that happens inside it.

In order: signature, decode, look the name up, deadline (by Redis' time at the claim), arguments, middleware, handler,
result. What can't be
mended by another attempt is raised as an error that `worker.retry` knows as final.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from shared import registry
from shared.arguments import parameters_of
from shared.codec import encode
from shared.errors import ConfigurationError, ExpiredError, PayloadError
from shared.job import Job
from shared.payload import Call, FireContext, unpack_call, unpack_context
from shared.settings import keyring
from shared.shapes import Place, as_plain
from worker.bridge import Middleware, run_to_end
from worker.context import RunContext
from worker.copies import ending_copies
from worker.deadline import expiry_note, is_expired
from worker.site import RunOverError, Site, current_site

log = logging.getLogger("rqbeat.worker")


@ending_copies()
def run(fixed: bytes, context: bytes) -> Any:
    """Run the job that a payload names and return its result.

    Raises RefusedPayloadError for what is no payload or is not signed as asked, UnknownJobError for a name that no app
    registered, ExpiredError past the deadline, and whatever the handler raises. Blocks for as long as the handler does.
    """
    site = _site()
    keyring().verify(context, fixed, site.job_id)
    call, fire = unpack_call(fixed), unpack_context(context)
    kind = cast("type[Job]", registry.jobs.find(call.job))
    middleware = _middleware(kind, call)
    job = kind()
    job.ctx = RunContext(site, fire)
    _check_deadline(job, fire, site.begun.now)
    args, kwargs = parameters_of(kind).rebuild(call.args, call.kwargs)
    result = run_to_end(partial(job.handle, *args, **kwargs), job, middleware)
    return _portable(result, call.job)


def _site() -> Site:
    site = current_site()
    if site is None:
        raise ConfigurationError("this job can only be run by `rqbeat worker`, which knows its store and its guards")
    return site


def _middleware(kind: type[Job], call: Call) -> Sequence[Middleware]:
    """The schedule's own, outermost, then those of the class."""
    return [*(registry.middleware.find(name) for name in call.middleware), *kind.middleware]


def _check_deadline(job: Job, fire: FireContext, now: int) -> None:
    if fire.deadline is None or not is_expired(fire.deadline, now):
        return
    try:
        run_to_end(job.on_expired, job, ())
    except Exception:
        log.exception("job %s: on_expired failed", job.ctx.key)
    raise ExpiredError(expiry_note(fire.deadline, now))


def _portable(result: object, name: str) -> Any:
    """The result as plain data, or None for one that can't travel: the work is done, and a retry would do it again."""
    try:
        plain = as_plain(result, Place("result"))
        encode(plain, "result")
    except RunOverError:
        raise
    except Exception as error:  # noqa: BLE001 - a value of the job's own may raise anything when it is read
        told = "" if isinstance(error, PayloadError) else f"{type(error).__name__}: "
        log.warning("job %s: its result is dropped: %s%s", name, told, error)
        return None
    return plain
