from __future__ import annotations

from collections.abc import Mapping

from lading.core.resources import Resources
from lading.core.scheduling import batch_planner as core
from lading.core.scheduling.batch_planner import Entry, Plan, Snapshot, Status, Worker
from lading.dispatch.planning import Standing, planning_of

ONE = Entry(uuid="u", priority=1, created_at="now", need=Resources(1, 1))
SNAPSHOT = Snapshot(queue=(ONE,), workers=(Worker(id="w", capacity=Resources(1, 1)),))


class Own:
    """A fleet that plans itself."""

    def plan(self, snapshot: Snapshot) -> Plan:
        return Plan(head=snapshot.queue[0].uuid)

    def explain(self, snapshot: Snapshot) -> Mapping[str, Status]:
        return {}


def test_a_fleet_that_plans_itself_does() -> None:
    own = Own()
    assert planning_of(own) is own


def test_any_other_is_planned_for() -> None:
    standing = planning_of(object())
    assert isinstance(standing, Standing)
    assert standing.plan(SNAPSHOT) == core.plan(SNAPSHOT)
    assert standing.explain(SNAPSHOT) == core.explain(SNAPSHOT)
