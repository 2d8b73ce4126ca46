"""What the beat says of its decisions: to the log, and to its own record in Redis.

A fire that ran on time is worth a debug line; one that was not enqueued, or was enqueued late, a warning that names
schedule, nominal time and reason. Trouble is said once when it begins, once when its text changes, once when it ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from scheduler.planner import Against, Fire
from scheduler.ports import Committed, Planned, PlanResult, Released
from shared.instants import iso

log = logging.getLogger("rqbeat.beat")

State = dict[str, str | int]


class BeatReport:
    """The observer of one beat. `publish` writes its state where `rqbeat health` reads it; it may fail quietly."""

    def __init__(self, publish: Callable[[State], None]) -> None:
        self._publish = publish
        self._state: State = {"state": "starting", "error": ""}
        self._aside: dict[str, str] = {}

    def released(self, released: Released) -> None:
        """Log what became of a fire that waited."""
        told = f"{released.outcome} ({released.reason})" if released.reason else released.outcome
        log.info("%s: %s waited, now %s", released.schedule, iso(released.nominal), told)

    def committed(self, batch: Sequence[Planned], committed: Committed) -> None:
        """Log what became of plans."""
        for index, planned in enumerate(batch):
            if index in committed.others or self._is_worth_a_word(planned):
                self._tell(planned, committed.result(index), committed.now)

    def _is_worth_a_word(self, planned: Planned) -> bool:
        """Most plans are one fire on time."""
        decisions = planned.plan.decisions
        is_plain = len(decisions) == 1 and decisions[0].kind == "scheduled"
        return not is_plain or planned.plan.schedule_id in self._aside or log.isEnabledFor(logging.DEBUG)

    def _tell(self, planned: Planned, result: PlanResult, now: int) -> None:
        if result.code == "paused":
            log.error("%s: %s", planned.plan.schedule_id, result.detail)
        if result.code != "ok":
            log.debug("%s: %s %s", planned.plan.schedule_id, result.code, result.detail)
            return
        if result.detail:
            self.set_aside(planned.plan.schedule_id, result.detail)
        elif self._aside.pop(planned.plan.schedule_id, None):
            log.info("%s: back at work", planned.plan.schedule_id)
        for index, decision in enumerate(planned.plan.decisions):
            match decision:
                case Fire():
                    outcome, reason = result.settled.get(index, ("enqueued", ""))
                    _log_fire(planned.plan.schedule_id, decision, outcome, reason, now)
                case Against():
                    _log_against(planned.plan.schedule_id, decision)

    def set_aside(self, schedule_id: str, error: str) -> None:
        """Log, once for each text, why a schedule does not fire."""
        if self._aside.get(schedule_id) != error:
            self._aside[schedule_id] = error
            log.error("%s: set aside: %s", schedule_id, error)

    def state(self, facts: State) -> None:
        """Log a change of state, and publish it."""
        if {**facts} != self._state:
            self._say(facts)
            self._state = {**facts}
        self._publish(facts)

    def _say(self, facts: State) -> None:
        if facts["error"]:
            log.error("%s; trying again", facts["error"])
        elif self._state["error"]:
            log.info("Redis answers again; %s", facts["state"])
        else:
            log.info("now %s", facts["state"])


def _log_fire(schedule_id: str, fire: Fire, outcome: str, reason: str, now: int) -> None:
    if outcome == "enqueued":
        level = logging.WARNING if fire.kind == "catchup" else logging.DEBUG
        if not log.isEnabledFor(level):
            return
        log.log(level, "%s: %s enqueued, %.3f s late", schedule_id, iso(fire.nominal), (now - fire.due) / 1000)
    else:
        log.warning("%s: %s %s%s", schedule_id, iso(fire.nominal), outcome, f" ({reason})" if reason else "")


def _log_against(schedule_id: str, decision: Against) -> None:
    until = f" to {iso(decision.until)}" if decision.count > 1 else ""
    told = f"{decision.outcome} ({decision.reason})"
    log.warning("%s: %s%s %s, %d in all", schedule_id, iso(decision.nominal), until, told, decision.count)
