"""A few dramas of each batch system, of which three commands in ten fail; `make simulate` plays
large ones.
"""

from __future__ import annotations

import pytest

from lading.testing.simulated_loop import play
from tests.simulation.batch_scenario import MOUTHS, AdapterDrama


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", list(MOUTHS))
def test_every_container_ends_once_and_no_job_is_left(name: str, seed: int) -> None:
    drama = AdapterDrama(name, seed, containers=40, waves=3, restarts=2)
    outcome = play(drama.play())
    assert not drama.alive()
    assert sum(drama.ran.values()) == len(drama.ran) >= outcome.complete
    assert outcome.failed > outcome.commands / 10
