"""How often and how late a failed run is tried again: the rule as data. Who waits, and how, is the worker's affair."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from shared.errors import ConfigurationError
from shared.instants import duration_ms

MAX_RETRIES = 1000


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """A durable retry rule: `max` retries after the first attempt.

    The delay before retry n (n = 1, 2 …) is `backoff * factor ** (n - 1)` seconds, at most `cap`, plus up to
    `jitter` (a share, 0 … 1) of it, hashed from job id and attempt so that it can be foretold. Only exceptions of the
    types in `on` are retried. Raises ConfigurationError when built from values that make no rule.
    """

    max: int
    backoff: float = 0.0
    factor: float = 2.0
    cap: float | None = None
    jitter: float = 0.0
    on: tuple[str, ...] = field(default=("builtins.Exception",))

    def __init__(
        self,
        max: int,  # noqa: A002 - the name that RQ gave it
        backoff: float | timedelta = 0,
        factor: float = 2,
        cap: float | timedelta | None = None,
        jitter: float = 0,
        on: tuple[type[BaseException] | str, ...] = (Exception,),
    ) -> None:
        _check(max, factor, jitter)
        assign = object.__setattr__
        assign(self, "max", max)
        assign(self, "backoff", duration_ms(backoff, "Retry.backoff") / 1000)
        assign(self, "factor", float(factor))
        assign(self, "cap", None if cap is None else duration_ms(cap, "Retry.cap") / 1000)
        assign(self, "jitter", float(jitter))
        assign(self, "on", tuple(_type_name(kind) for kind in _kinds(on)))

    def covers(self, error: type[BaseException]) -> bool:
        """Whether an exception of this type is retried: by the names of its bases, so that names can travel."""
        return any(_type_name(base) in self.on for base in error.__mro__)

    def to_data(self) -> dict[str, object]:
        """Plain data that `from_data` takes."""
        return {
            "max": self.max,
            "backoff": self.backoff,
            "factor": self.factor,
            "cap": self.cap,
            "jitter": self.jitter,
            "on": list(self.on),
        }

    @classmethod
    def from_data(cls, data: Mapping[str, object]) -> Retry:
        """The rule that `to_data` wrote. Raises ConfigurationError when it is no such thing."""
        try:
            values = {**data, "on": tuple(data["on"])}  # type: ignore[arg-type]
            return cls(**values)  # type: ignore[arg-type]
        except (TypeError, KeyError) as error:
            raise ConfigurationError(f"not a retry rule: {error}") from None


def _check(retries: object, factor: object, jitter: object) -> None:
    if isinstance(retries, bool) or not isinstance(retries, int) or not 0 <= retries <= MAX_RETRIES:
        raise ConfigurationError(f"Retry.max must be a whole number from 0 to {MAX_RETRIES}, got {retries!r}")
    if not isinstance(factor, int | float) or not 1 <= factor <= 1000:
        raise ConfigurationError(f"Retry.factor must lie between 1 and 1000, got {factor!r}")
    if not isinstance(jitter, int | float) or not 0 <= jitter <= 1:
        raise ConfigurationError(f"Retry.jitter is a share between 0 and 1, got {jitter!r}")


def _kinds(on: object) -> tuple[type[BaseException] | str, ...]:
    """A single class or name, which would be taken letter by letter, is a mistake."""
    if isinstance(on, tuple | list | set | frozenset):
        if strange := [one for one in on if not isinstance(one, str) and not _is_error(one)]:
            raise ConfigurationError(f"Retry.on: exception classes or their names, got {strange[0]!r:.80}")
        return tuple(on)
    raise ConfigurationError(f"Retry.on: a tuple of exception classes or their names, got {on!r:.80}")


def _is_error(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _type_name(kind: type[BaseException] | str) -> str:
    return kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
