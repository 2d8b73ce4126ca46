"""Schedules of every kind, drawn from a seed: triggers and policies, the shorter and the stranger the better."""

from __future__ import annotations

from random import Random
from typing import Any

from scheduler.schedule import Schedule, build
from scheduler.triggers import CompoundTrigger, CronTrigger, DateTrigger, IntervalTrigger, Trigger
from shared import Job


class Work(Job):
    name = "simulated-work"

    def handle(self) -> None: ...


PERIODS = (0.1, 0.2, 0.25, 0.5, 1, 1, 2, 3, 7)
CRONS = ("* * * * * *", "*/2 * * * * *", "*/5 * * * * *", "7,8,9 * * * * *", "0 */1 * * * *")
ZONES = (None, "Europe/Paris", "Asia/Kolkata")
POLICIES: dict[str, tuple[Any, ...]] = {
    "misfire": ("latest", "all", "earliest", "skip"),
    "misfire_grace": (0, 0.3, 2, 30),
    "catchup_window": (0, 1, 5, 60, 3600),
    "catchup_limit": (1, 2, 10, 100),
    "overlap": ("skip", "allow", "buffer", "replace"),
    "max_instances": (1, 2, 5),
    "on_resume": ("discard", "catch_up"),
    "expires_in": (0.5, 5, 60),
    "limit": (3, 50, 200),
    "jitter": (0.05, 0.4, 3),
    "max_queue_depth": (1, 5, 30),
    "on_full": ("skip", "hold"),
    "pause_after_failures": (1, 2, 5),
    "queue": ("default", "slow"),
    "at_front": (True,),
}
SELDOM = frozenset({"limit", "pause_after_failures", "max_queue_depth", "expires_in", "at_front"})


def any_schedule(rng: Random, name: str, now: int) -> Schedule:
    """Some schedule of this id; `now` is about when it is made, ms."""
    return build(Work, any_trigger(rng, now), any_policies(rng, name))


def any_policies(rng: Random, name: str) -> dict[str, Any]:
    """Some options of `schedule()`: each policy may be given or left out."""
    chosen = {
        key: rng.choice(values) for key, values in POLICIES.items() if rng.random() < (0.15, 0.5)[key not in SELDOM]
    }
    if chosen.get("overlap") == "allow" and rng.random() < 0.7:
        chosen.pop("max_instances", None)
    return {"id": name, **chosen}


def any_trigger(rng: Random, now: int) -> Trigger:
    """Some trigger that soon fires: mostly plain, now and then bounded, compound, or a single date."""
    draw = rng.random()
    if draw < 0.08:
        return DateTrigger((now + rng.randrange(-5_000, 20_000)) / 1000)
    if draw < 0.16:
        return IntervalTrigger(rng.choice(PERIODS), start=(now - rng.randrange(9_999)) / 1000, end=now / 1000 + 30)
    if draw < 0.26:
        return _compound(rng)
    return _plain(rng)


def _plain(rng: Random) -> Trigger:
    if rng.random() < 0.25:
        return CronTrigger(rng.choice(CRONS), timezone=rng.choice(ZONES), seconds=True)
    return IntervalTrigger(rng.choice(PERIODS))


def _compound(rng: Random) -> CompoundTrigger:
    one, other = IntervalTrigger(rng.choice(PERIODS)), IntervalTrigger(rng.choice((0.3, 0.7, 1.5)))
    return rng.choice((one | other, one - IntervalTrigger(11), one | CronTrigger("*/3 * * * * *", seconds=True)))
