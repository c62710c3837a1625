"""The limit of memory by samples."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core import memory_sampling
from lading.core.resources import GIB, MIB


@pytest.mark.parametrize(
    ("used", "limit", "seconds"),
    [(0, 64 * MIB, 0.05), (0, GIB, 0.25), (0, 100 * GIB, 0.5), (2 * GIB, GIB, 0.05)],
)
def test_samples_follow_each_other_sooner_near_the_limit(
    used: int, limit: int, seconds: float
) -> None:
    assert memory_sampling.pause(used, limit) == seconds


@given(st.integers(0, 1 << 50), st.integers(1, 1 << 50))
def test_a_pause_is_bounded(used: int, limit: int) -> None:
    assert 0.05 <= memory_sampling.pause(used, limit) <= 0.5


def test_the_reason_names_both_amounts() -> None:
    assert memory_sampling.sentence(80 * MIB, 64 * MIB) == (
        "its processes were killed because a sample found 80.0 MiB of memory, which is more than"
        " its 64.0 MiB of ram"
    )
