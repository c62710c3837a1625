"""The rules that spoiled manifests are held to: some of them here, a million in `make fuzz`."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data import manifest
from tests.fuzz import manifests

SEEDS = manifests.seeds(random.Random(1))


def test_the_seeds_are_manifests() -> None:
    assert all(manifests.check(text) for text in SEEDS)


def test_spoiled_manifests() -> None:
    faults, taken = manifests.try_manifests(count=3000, number=1)
    assert faults == []
    assert 0 < taken < 3000


def test_the_work_grows_with_the_text() -> None:
    assert manifests.too_slow(small=1 << 14) == []


@given(st.sampled_from(SEEDS), st.randoms(use_true_random=False))
def test_spoiled_by_hypothesis(text: str, chance: random.Random) -> None:
    manifests.check(manifests.spoil(text, chance))


@given(st.text(st.sampled_from(" \n.:/\\+0123456789abcdefA@d"), max_size=200))
def test_texts_of_the_letters_of_manifests(text: str) -> None:
    manifests.check(text)


def test_a_broken_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "counts", lambda text: (0, 0))
    faults, _ = manifests.try_manifests(count=50, number=1)
    assert any("counts otherwise" in one or "takes what parse refuses" in one for one in faults)
