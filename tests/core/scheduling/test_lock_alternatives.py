"""Containers that may take the place of a start: rules as examples, order as a property."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lading.core.resources import Resources
from lading.core.scheduling.batch_planner import plan
from lading.core.scheduling.lock_alternatives import find_alternatives
from lading.core.scheduling.planning import (
    DispatchPlan,
    FleetWorker,
    Occupant,
    Snapshot,
    StartDecision,
    TrackedContainer,
)

ONE, TWO = Resources(1, 10), Resources(2, 10)


def entry(uuid: str, need: Resources = ONE, **more: object) -> TrackedContainer:
    return replace(TrackedContainer(uuid=uuid, priority=1, need=need), **more)  # type: ignore[arg-type]


def found(queue: str, *started: str, most: int = 9, **more: object) -> dict[str, str]:
    """Alternatives in a queue of containers that need one VCPU (a-z) or two (A-Z)."""
    entries = tuple(
        entry(str(number) + name, TWO if name.isupper() else ONE)
        for number, name in enumerate(queue)
    )
    starts = tuple(StartDecision(one.uuid, "w") for one in entries if one.uuid[1:] in started)
    snapshot = replace(Snapshot(queue=entries), **more)  # type: ignore[arg-type]
    answer = find_alternatives(snapshot, DispatchPlan(starts=starts), most=most)
    return {uuid[1:]: "".join(one[1:] for one in others) for uuid, others in answer.items()}


def test_equal_containers_behind_a_start_are_its_alternatives() -> None:
    assert found("abcd", "a", "b") == {"a": "cd", "b": "cd"}
    assert found("abcd", "a", most=2) == {"a": "bc"}
    assert found("ab", "a", "b") == {}


def test_a_waiting_container_that_asks_for_something_else_is_not_overtaken() -> None:
    assert found("abXc", "a") == {"a": "b"}
    assert found("aXbc", "a") == {}
    assert found("XaYb", "a") == {}


def test_what_is_started_or_held_between_them_does_not_matter() -> None:
    assert found("aXbY", "a", "X") == {"a": "b"}
    assert found("aXb", "a", held_back={"1X": "paused"}) == {"a": "b"}
    worker = FleetWorker("w", TWO, occupants=(Occupant(uuid="1X", need=TWO),))
    assert found("aXb", "a", workers=(worker,)) == {"a": "b"}


def test_gangs_and_grown_containers_have_none() -> None:
    queue = tuple(entry(uuid, nodes=2) for uuid in "ab")
    decided = DispatchPlan(starts=(StartDecision("a", "w"),))
    assert find_alternatives(Snapshot(queue=queue), decided, most=9) == {}
    queue = tuple(entry(uuid) for uuid in "ab")
    for start in (StartDecision("a", "w", ONE), StartDecision("a", "w", others=("v",))):
        decided = DispatchPlan(starts=(start,))
        assert find_alternatives(Snapshot(queue=queue), decided, most=9) == {}


SHAPES = st.sampled_from((ONE, TWO, Resources(3, 30)))


@given(st.lists(SHAPES, min_size=2, max_size=12), st.integers(1, 5))
def test_the_plan_without_a_start_begins_its_first_alternative(
    shapes: list[Resources], vcpus: int
) -> None:
    """So the planner decides too, once the lock is known to be lost."""
    queue = tuple(entry(f"{number:02}", need) for number, need in enumerate(shapes))
    snapshot = Snapshot(queue=queue, workers=(FleetWorker("w", Resources(vcpus, 1000)),))
    decided = plan(snapshot)
    for uuid, others in find_alternatives(snapshot, decided, most=3).items():
        without = tuple(one for one in queue if one.uuid != uuid)
        again = {one.uuid for one in plan(replace(snapshot, queue=without)).starts}
        assert others[0] in again
        assert list(others) == sorted(others)
