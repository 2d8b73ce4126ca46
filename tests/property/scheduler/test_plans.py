"""Whatever the trigger, the policies, the outage and the order of looks: every nominal time is covered exactly once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.planner import Against, Fire, Plan, plan
from scheduler.schedule import build
from scheduler.triggers import CronTrigger, DateTrigger, IntervalTrigger, Trigger
from shared import Job

START = 1_700_000_000_000


class Covered(Job):
    name = "property-covered"

    def handle(self) -> None: ...


triggers: st.SearchStrategy[Trigger] = st.one_of(
    st.integers(1, 600).map(IntervalTrigger),
    st.sampled_from(["*/7 * * * *", "0 * * * *", "30 2 * * *", "* * * * *"]).map(
        lambda text: CronTrigger(text, timezone="Europe/Berlin")
    ),
    st.integers(0, 100_000).map(lambda offset: DateTrigger((START + offset * 100) / 1000)),
)
policies = st.fixed_dictionaries(
    {
        "misfire": st.sampled_from(["latest", "all", "earliest", "skip"]),
        "misfire_grace": st.integers(0, 100),
        "catchup_window": st.integers(0, 4000),
        "catchup_limit": st.integers(1, 20),
        "jitter": st.integers(0, 100),
    },
    optional={"expires_in": st.integers(1, 5000)},
)
looks = st.lists(st.integers(0, 7_200_000), min_size=1, max_size=8)


def covered(made: Plan, trigger: Trigger) -> list[int]:
    """Every nominal time that a plan's decisions cover, in their order."""
    times: list[int] = []
    for decision in made.decisions:
        match decision:
            case Fire():
                times.append(decision.nominal)
            case Against():
                times += between(trigger, decision.nominal - 1, decision.until)
                assert decision.count == len(between(trigger, decision.nominal - 1, decision.until))
    return times


def between(trigger: Trigger, after: int, until: int) -> list[int]:
    times = []
    at = trigger.next_ms(after)
    while at is not None and at <= until:
        times.append(at)
        at = trigger.next_ms(at)
    return times


@given(trigger=triggers, policy=policies, steps=looks)
def test_every_nominal_time_is_covered_exactly_once_in_order(
    trigger: Trigger, policy: dict[str, Any], steps: list[int]
) -> None:
    schedule = build(Covered, trigger, {"id": "p", **policy})
    cursor, now, seen = START, START, []
    for step in steps:
        now += step
        made = plan(schedule, cursor, now)
        assert made.base == cursor
        seen += covered(made, trigger)
        cursor = made.cursor
    assert seen == between(trigger, START, cursor)


@given(trigger=triggers, policy=policies, gap=st.integers(0, 7_200_000))
def test_what_is_enqueued_is_due_in_its_window_and_before_its_deadline(
    trigger: Trigger, policy: dict[str, Any], gap: int
) -> None:
    schedule = build(Covered, trigger, {"id": "p", **policy})
    now = START + gap
    fires = [item for item in plan(schedule, START, now).decisions if isinstance(item, Fire)]
    assert len(fires) <= policy["catchup_limit"]
    for fire in fires:
        assert fire.nominal <= fire.due <= now
        assert now - fire.due <= policy["catchup_window"] * 1000
        assert fire.context.deadline is None or fire.context.deadline >= now
