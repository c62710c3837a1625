from __future__ import annotations

from collections.abc import Mapping

from lading.core.resources import Resources
from lading.core.scheduling import batch_explanation, batch_planner
from lading.core.scheduling.planning import (
    DispatchPlan,
    FleetWorker,
    Reservation,
    Snapshot,
    TrackedContainer,
    WaitStatus,
)
from lading.dispatch.loop import StaticPlanning, planning_of

ONE = TrackedContainer(uuid="u", priority=1, created_at="now", need=Resources(1, 1))
SNAPSHOT = Snapshot(queue=(ONE,), workers=(FleetWorker(id="w", capacity=Resources(1, 1)),))


class Own:
    """A fleet that plans itself."""

    def plan(self, snapshot: Snapshot) -> DispatchPlan:
        return DispatchPlan(reservations=(Reservation(snapshot.queue[0].uuid, "w"),))

    def explain(self, snapshot: Snapshot) -> Mapping[str, WaitStatus]:
        return {}


def test_a_fleet_that_plans_itself_does() -> None:
    own = Own()
    assert planning_of(own) is own


def test_any_other_is_planned_for() -> None:
    static = planning_of(object())
    assert isinstance(static, StaticPlanning)
    assert static.plan(SNAPSHOT) == batch_planner.plan(SNAPSHOT)
    assert static.explain(SNAPSHOT) == batch_explanation.explain(SNAPSHOT)
