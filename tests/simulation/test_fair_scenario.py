"""A few plays of projects that share slots, and the planted bugs that show soon."""

from __future__ import annotations

import pytest

from tests.simulation.fair_scenario import Bug, find, run


@pytest.mark.parametrize("seed", range(4))
def test_each_project_gets_its_share(seed: int) -> None:
    run(seed)


# The others take more seeds: `make simulate` looks for them.
@pytest.mark.parametrize("bug", [Bug.NOT_CHARGED, Bug.NOT_FORWARD, Bug.TICKET_LEFT, Bug.LEVEL])
def test_a_planted_bug_is_found(bug: Bug) -> None:
    assert find(bug) is not None
