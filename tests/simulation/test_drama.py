"""The simulation itself: it replays, it holds, and it finds what is planted. `make simulate` plays thousands."""

from __future__ import annotations

import pytest

from lading.testing.simulation.__main__ import find
from lading.testing.simulation.bugs import Bug
from lading.testing.simulation.drama import Drama, play


@pytest.mark.parametrize("seed", range(40))
def test_a_seed_ends_in_peace(seed: int) -> None:
    assert play(seed) >= 500


def test_a_seed_always_plays_the_same() -> None:
    trails = []
    for _ in range(2):
        drama = Drama(7)
        drama.play(300)
        trails.append((drama.step, list(drama.trail)))
    assert trails[0] == trails[1]


@pytest.mark.parametrize("bug", Bug)
def test_a_planted_bug_is_found_and_its_seed_finds_it_again(bug: Bug) -> None:
    first = find(bug, steps=500)
    assert first is not None
    again = find(bug, steps=500)
    assert again is not None
    assert (str(again), again.trail) == (str(first), first.trail)
