"""A few plays of a Kubernetes cluster whose API server is mean."""

from __future__ import annotations

import pytest

from lading.testing.simulated_loop import play
from tests.simulation.kubernetes_scenario import ClusterDrama


@pytest.mark.parametrize("seed", range(3))
def test_every_container_ends_once_and_nothing_is_left(seed: int) -> None:
    drama = ClusterDrama(seed, containers=40, restarts=2)
    outcome = play(drama.play())
    assert not drama.cluster.pods
    assert not drama.cluster.secrets
    assert sum(drama.ran.values()) == len(drama.ran) >= outcome.complete > 0
