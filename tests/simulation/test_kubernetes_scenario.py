"""A few plays of a Kubernetes cluster whose API server is mean; `make simulate` plays more."""

from __future__ import annotations

import pytest

from lading.testing.simulated_loop import play
from tests.simulation.kubernetes_bugs import Bug
from tests.simulation.kubernetes_scenario import ClusterDrama, fault_of, find, worst

SEEDS = 20
"""Within so many plays each planted bug is seen."""


@pytest.mark.parametrize("seed", range(3))
def test_every_container_ends_once_and_nothing_is_left(seed: int) -> None:
    drama = ClusterDrama(seed, containers=40, restarts=2)
    outcome = play(drama.play())
    assert [one["metadata"]["uid"] for one in drama.cluster.pods.values()] == ["foreign"]
    assert len(drama.cluster.secrets) == 1
    assert sum(drama.ran.values()) == len(drama.ran) >= outcome.complete > 0


def test_a_seed_is_played_again_exactly() -> None:
    first, second = (play(ClusterDrama(4, containers=20).play()) for _ in range(2))
    assert first == second


def test_the_malice_of_a_seed_is_its_own() -> None:
    assert worst(1) == worst(1)
    assert worst(1) != worst(2)


@pytest.mark.parametrize("bug", list(Bug))
def test_a_planted_bug_is_found_and_leaves_nothing_behind(bug: Bug) -> None:
    found = find(bug, seeds=SEEDS, containers=30)
    assert found is not None
    seed, _ = found
    assert fault_of(seed, 30) == ""
