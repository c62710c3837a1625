"""What the planner of a cloud is given."""

from __future__ import annotations

from lading.core.resources import GIB, Resources
from lading.core.scheduling.cloud_plan import Rules, Waiting
from lading.core.scheduling.instance_types import InstanceType, Shape

SHAPE = Shape(need=Resources(1, GIB))


def kind(name: str, *, preemptible: bool = False) -> InstanceType:
    return InstanceType(
        name=name,
        provider_type=name,
        resources=Resources(2, 2 * GIB),
        price=2.0,
        preemptible=preemptible,
    )


def test_spot_and_others_are_of_different_groups() -> None:
    rules = Rules(types=(kind("t2"), kind("t2.spot", preemptible=True)))
    assert [rules.group(one) for one in rules.types] == ["t2", "t2.spot-spot"]


def test_the_queue_is_by_priority_then_time_then_uuid() -> None:
    last = Waiting("b", 500, "2026-01-02", SHAPE)
    third = Waiting("a", 500, "2026-01-02", SHAPE)
    second = Waiting("c", 500, "2026-01-01", SHAPE)
    first = Waiting("d", 900, "2026-01-02", SHAPE)
    waiting = [last, third, second, first]
    assert sorted(waiting, key=lambda one: one.key) == [first, second, third, last]
