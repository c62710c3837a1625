"""The records that all planners share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lading.core.containers.container import ContainerState
from lading.core.resources import Resources
from lading.core.scheduling.planning import FleetWorker, TrackedContainer

ONE = TrackedContainer(uuid="u", priority=5, need=Resources(4, 80), ram=60, nodes=2)


def test_containers_are_equal_that_say_the_same_whenever_it_was_learned() -> None:
    assert replace(ONE, version=7) == ONE
    assert replace(ONE, priority=6) != ONE


@pytest.mark.parametrize(
    ("container", "waiting", "final", "sized"),
    [
        (ONE, True, False, True),
        (replace(ONE, priority=0), False, False, True),
        (replace(ONE, state=ContainerState.RUNNING), False, False, True),
        (replace(ONE, state=ContainerState.CANCELLED), False, True, True),
        (replace(ONE, fault="ram: missing"), True, False, False),
        (replace(ONE, state=None), False, False, False),
    ],
)
def test_what_its_record_says(
    container: TrackedContainer, *, waiting: bool, final: bool, sized: bool
) -> None:
    assert (container.waiting, container.final, container.sized) == (waiting, final, sized)


def test_amounts_of_a_container_and_of_a_rank() -> None:
    assert ONE.each == Resources(2, 40)
    assert ONE.amounts(Resources(1, 5)) == {"vcpus": 5, "ram": 65}


def test_a_worker_takes_what_its_partitions_and_its_capacity_allow() -> None:
    worker = FleetWorker("w", Resources(4, 80), frozenset({"a"}), nodes={"a": 3, "": 1})
    assert worker.admits(ONE)
    assert worker.admits(replace(ONE, partitions=("b", "a")))
    assert not worker.admits(replace(ONE, partitions=("b",)))
    assert not worker.admits(replace(ONE, need=Resources(5, 80)))
    assert not replace(worker, closed=True).admits(ONE)
    assert [worker.machines(names) for names in ((), ("a", "b"), ("b",))] == [1, 3, 0]
