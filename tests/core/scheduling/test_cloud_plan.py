"""What the planner of a cloud is given."""

from __future__ import annotations

from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_limits import CloudRules
from lading.core.scheduling.instance_types import InstanceType
from lading.core.scheduling.planning import TrackedContainer, by_place


def kind(name: str, *, preemptible: bool = False) -> InstanceType:
    return InstanceType(
        name=name,
        provider_type=name,
        resources=Resources(2, 2 * GIB),
        price=2.0,
        preemptible=preemptible,
    )


def test_spot_and_others_are_of_different_groups() -> None:
    rules = CloudRules(types=(kind("t2"), kind("t2.spot", preemptible=True)))
    assert [rules.group(one) for one in rules.types] == ["t2", "t2.spot-spot"]


def test_the_queue_is_by_priority_then_time_then_uuid() -> None:
    last = TrackedContainer(uuid="b", priority=500, created_at="2026-01-02")
    third = TrackedContainer(uuid="a", priority=500, created_at="2026-01-02")
    second = TrackedContainer(uuid="c", priority=500, created_at="2026-01-01")
    first = TrackedContainer(uuid="d", priority=900, created_at="2026-01-02")
    waiting = [last, third, second, first]
    assert sorted(waiting, key=by_place) == [first, second, third, last]
