"""The simulation repeats a seed, holds, and finds planted bugs. `make simulate` runs thousands."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from lading.core.containers import lifecycle
from lading.core.containers.container import ContainerState
from tests.simulation.__main__ import find
from tests.simulation.bugs import Bug, planted
from tests.simulation.invariants import Invariant
from tests.simulation.rules import ServerRules
from tests.simulation.scenario import SHARE, Scenario, Violation, run

FOUND_BY = {
    Bug.LOCK: {Invariant.ONE_LOCKER, Invariant.WRITERS},
    Bug.TOKEN: {Invariant.TOKENS},
    Bug.WRITERS: {Invariant.WRITERS},
    Bug.FENCING: {Invariant.WRITERS, Invariant.FENCED},
    Bug.RETRIES: {Invariant.ATTEMPTS},
    Bug.GIVEN_UP: {Invariant.ATTEMPTS},
    Bug.CLASSES: {Invariant.ATTEMPTS},
    Bug.PRIORITY: {Invariant.PRIORITY},
    Bug.CHILDREN_PRIORITY: {Invariant.PRIORITY},
    Bug.TURNS: {Invariant.PARALLEL},
    Bug.QUOTA: {Invariant.QUOTA},
    Bug.BUDGET: {Invariant.QUOTA},
    Bug.NO_REFILL: {Invariant.ROOM},
    Bug.ORPHANS: {Invariant.CHILDREN},
    Bug.REUSE: {Invariant.REUSE},
    Bug.EXIT_CODE: {Invariant.RESULT},
    Bug.FORGOTTEN: {Invariant.OPEN},
}
"""The invariants that find the bugs of the server; those of dispatchers show in several ways."""
RARE = {Bug.WRITERS, Bug.TOLD_ONCE}
"""Bugs that take hundreds of seeds: `make simulate` looks for them."""


@pytest.mark.parametrize("seed", range(1, 30))
def test_a_seed_ends_in_peace(seed: int) -> None:
    assert run(seed, compares=False) >= 500


@pytest.mark.parametrize("seed", range(6))
def test_the_real_handlers_do_what_the_model_does(seed: int) -> None:
    assert run(seed, compares=True) >= 500


def test_a_share_of_the_seeds_runs_on_the_real_handlers() -> None:
    assert run(SHARE, steps=20) == run(SHARE, steps=20, compares=True)
    assert SHARE < 100


@pytest.mark.parametrize("compares", [False, True])
def test_a_seed_always_goes_the_same_way(compares: bool) -> None:
    trails = []
    for _ in range(2):
        scenario = Scenario(7, compares=compares)
        scenario.run(300)
        trails.append((scenario.step, list(scenario.trail)))
    assert trails[0] == trails[1]


@pytest.mark.parametrize("bug", [bug for bug in Bug if bug not in RARE])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    found = find(bug, steps=500, seeds=120)
    assert found is not None
    assert found.invariant in FOUND_BY.get(bug, {*Invariant})


def test_a_found_bug_is_found_again_by_its_seed_and_leaves_nothing_behind() -> None:
    first = find(Bug.LIVE_UNLOCK, steps=500)
    assert first is not None
    with planted(Bug.LIVE_UNLOCK), pytest.raises(Violation) as again:
        run(first.seed, compares=False)
    assert (str(again.value), again.value.trail) == (str(first), first.trail)
    assert run(first.seed, compares=False) >= 500


def test_a_model_that_differs_from_the_handlers_is_told() -> None:
    def lock(container: Any, **more: Any) -> lifecycle.ContainerChange:
        change = lifecycle.lock(container, **more)
        container = replace(change.container, state=ContainerState.QUEUED)
        return replace(change, container=container)

    expected = r"the handlers have 'Locked', the model has .*Queued"
    with pytest.raises(Violation, match=expected) as told:
        run(0, rules=ServerRules(lock=lock), compares=True)
    assert told.value.invariant == "drift"
