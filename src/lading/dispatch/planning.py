"""The seam between the dispatch loop and who decides what starts where: by default
`core.scheduling.batch_planner`, else the fleet itself.

A fleet that makes its workers as containers need them has to plan for those that it does not have
yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from lading.core.scheduling import batch_planner as core
from lading.core.scheduling.batch_planner import Plan, Snapshot, Status


@runtime_checkable
class Planning(Protocol):
    """Decides; a plan is taken for carried out, what was not shows in the next snapshot."""

    def plan(self, snapshot: Snapshot) -> Plan:
        """What to start now, in order."""
        ...

    def explain(self, snapshot: Snapshot) -> Mapping[str, Status]:
        """Why each container of the queue waits."""
        ...


class Standing:
    """For workers that are there: `core.scheduling.batch_planner`."""

    def plan(self, snapshot: Snapshot) -> Plan:
        """What to start now."""
        return core.plan(snapshot)

    def explain(self, snapshot: Snapshot) -> Mapping[str, Status]:
        """Why containers wait."""
        return core.explain(snapshot)


def planning_of(fleet: object) -> Planning:
    """Who plans for a fleet."""
    return fleet if isinstance(fleet, Planning) else Standing()
