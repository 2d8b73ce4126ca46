"""Once-marks: a durable marker around one side effect, kept in Redis under the job's id.

What is guaranteed, with a mark m of one job:

    killed before the block      the claim was not made, or made by nobody who lives: see "inside"
    killed inside the block      in doubt: the effect may have happened or not; the next attempt is told so
    killed after the block       done: no later attempt of this job enters the block as first again
    exception inside the block   released: the next attempt is first again, so half an effect must undo itself
    Redis gone when leaving      the error is raised and the claim stands: in doubt

"Killed inside" begins when Redis has the claim and ends when Redis has the "done": a kill just outside the block, with
a message still on its way, counts as inside. Marks last for the job's longest retry span and the time its failed record
is kept, counted anew at each entry, and so survive a requeue by hand. Two runs of one job at the same time, should that
ever be, never both enter as first unless `on_doubt="repeat"`.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from shared.context import OnDoubt
from shared.errors import ConfigurationError, OnceInDoubtError
from worker.site import Site

_MARK = re.compile(r"[^\x00-\x1f\x7f]{1,200}")
_ON_DOUBT = ("raise", "skip", "repeat")


@contextmanager
def once(site: Site, mark: str, on_doubt: OnDoubt = "raise") -> Iterator[bool]:
    """True inside the block when the effect is still to be done. Blocks for one round trip at each end.

    Raises OnceInDoubtError, ConfigurationError for a mark that is no name or that this run is inside of, StoreError.
    """
    _check(mark, on_doubt)
    claim = uuid.uuid4().hex
    entered = site.runs.enter_once(site.job_id, mark, claim, site.memory_seconds, on_doubt)
    if entered == "doubt" and mark in site.open_marks:
        raise ConfigurationError(f"job {site.job_id}, once {mark!r}: already open in this run")
    if entered == "doubt":
        raise OnceInDoubtError(
            f"job {site.job_id}, once {mark!r}: an earlier attempt was cut off inside the block, "
            f"so its effect may have happened or not"
        )
    if entered == "done":
        yield False
        return
    site.open_marks.add(mark)
    try:
        yield True
    except BaseException:
        site.open_marks.discard(mark)
        site.runs.leave_once(site.job_id, mark, claim, site.memory_seconds, done=False)
        raise
    site.open_marks.discard(mark)
    site.runs.leave_once(site.job_id, mark, claim, site.memory_seconds, done=True)


def _check(mark: str, on_doubt: str) -> None:
    if not isinstance(mark, str) or not _MARK.fullmatch(mark):
        raise ConfigurationError(f"once: a mark has 1 to 200 characters and no control characters, got {mark!r:.80}")
    if on_doubt not in _ON_DOUBT:
        raise ConfigurationError(f"once: on_doubt is one of {', '.join(_ON_DOUBT)}, got {on_doubt!r:.40}")
