"""A few dramas of fake VMs under every trouble at once; `make cloud` plays large ones."""

from __future__ import annotations

import pytest

from lading.testing.cloud import Troubles, play
from lading.testing.cloud_drama import Drama, worst


@pytest.mark.parametrize("seed", range(3))
def test_every_container_ends_once_and_no_vm_is_left(seed: int) -> None:
    outcome = play(Drama(seed, containers=15).play())
    assert outcome.locks >= 15


def test_without_trouble_nothing_but_the_quota_is_met() -> None:
    outcome = play(Drama(0, containers=15, restarts=0, troubles=Troubles(boot=(5.0, 10.0))).play())
    assert set(outcome.refused) <= {"quota"}


def test_the_troubles_of_a_seed_are_its_own() -> None:
    assert worst(1) == worst(1)
    assert worst(1) != worst(2)
