"""Every error that rqbeat raises on purpose, in one tree, grouped by what the catcher can do about it.

    RqbeatError
    ├── ConfigurationError (ValueError)       the declaration or a setting is wrong: correct it
    │   ├── TriggerError                      a trigger can't be built from what was given
    │   │   ├── CronSyntaxError               … a cron expression, with field and position
    │   │   ├── NeverFiresError               … it is well formed and yields no instant, ever
    │   │   └── TriggerTooSparseError         … no instant was found within the search bound
    │   ├── UnknownZoneError                  no such time zone, or no zone data on this machine
    │   ├── PayloadError                      a value can't travel: names its path in the arguments
    │   └── ForeignPackageError               another `shared`, `worker` or `scheduler` shadows ours
    ├── NotFoundError (LookupError)           no such schedule, job or queue: name another
    │   └── UnknownJobError                   a payload names a job that no app registered
    ├── AlreadyExistsError (ValueError)       the id or name is taken: choose another
    ├── ConflictError                         somebody changed it since it was read: read again, then decide
    ├── RefusedChangeError                    a set of schedules that looks like an accident: force it, or mend it
    ├── RefusedPayloadError (ValueError)      what a worker was handed is not a payload of ours
    ├── ExpiredError                          a job was past its deadline when it would have started
    ├── JobFailedError                        the job whose result was asked for ended without one
    ├── OnceInDoubtError                      a once-marked effect was cut off in the middle: only a person can know
    └── StoreError                            Redis answered with something other than yes
        ├── StoreUnavailableError (ConnectionError)   gone, loading, read-only, full: try again later
        └── StoreRefusedError (PermissionError)       wrong password, an evicting or too old server: a person must act

"Somebody else did it already" is a result, not an error: it is not in this tree.
"""

from __future__ import annotations


class RqbeatError(Exception):
    """The root: catch it to catch everything that rqbeat raises on purpose."""


class ConfigurationError(RqbeatError, ValueError):
    """A declaration or a setting is wrong. The message names the place and the cure."""


class TriggerError(ConfigurationError):
    """A trigger can't be built from what was given."""


class CronSyntaxError(TriggerError):
    """A cron expression is not in the dialect.

    `field` is the field's name ("minute" … "day of week", or "expression"), `position` the index of the first offending
    character in the text as given.
    """

    def __init__(self, message: str, *, field: str, position: int) -> None:
        super().__init__(message)
        self.field = field
        self.position = position


class NeverFiresError(TriggerError):
    """A trigger is well formed and yields no instant in all of time."""


class TriggerTooSparseError(TriggerError):
    """No instant of a trigger was found within the search bound: it fires too rarely, or never."""


class UnknownZoneError(ConfigurationError):
    """A time zone's name is unknown, or this machine has no zone data."""


class PayloadError(ConfigurationError):
    """A value can't travel to a worker. `path` says where it sits in the arguments, such as `kwargs.user[2]`."""

    def __init__(self, message: str, *, path: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


class ForeignPackageError(ConfigurationError):
    """A folder or module on the import path takes the place of one of ours."""


class NotFoundError(RqbeatError, LookupError):
    """There is no such schedule, job or queue."""


class UnknownJobError(NotFoundError):
    """A name is not that of a registered job."""


class AlreadyExistsError(RqbeatError, ValueError):
    """The id or the name is taken by something else."""


class ConflictError(RqbeatError):
    """Somebody else changed it since it was read. Nothing was overwritten."""


class RefusedChangeError(RqbeatError):
    """A set of declared schedules looks like an accident or is an older one."""


class RefusedPayloadError(RqbeatError, ValueError):
    """What a worker was handed is not a payload that it may run."""


class ExpiredError(RqbeatError):
    """A job was past its deadline when it would have started. It never runs and is never retried."""


class JobFailedError(RqbeatError):
    """The job whose result was asked for failed; the message ends with its error."""


class OnceInDoubtError(RqbeatError):
    """An earlier attempt was killed inside a once-block: its effect may have happened or not."""


class StoreError(RqbeatError):
    """Redis answered with something other than what was asked for."""


class StoreUnavailableError(StoreError, ConnectionError):
    """Redis can't serve now: gone, loading, read-only, out of memory. Trying again later is right."""


class StoreRefusedError(StoreError, PermissionError):
    """Redis refuses for a reason that a person has to mend: password, server version, eviction policy."""
