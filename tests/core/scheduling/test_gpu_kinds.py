"""GPUs of several kinds in one machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.scheduling.gpu_kinds import (
    GpuHolder,
    has_free_gpus,
    suited_kinds,
    unsuited_kinds,
)
from lading.core.scheduling.instance_types import NO_GPU, Gpu

LARGE = Gpu(stack="cuda", count=1, targets=("8.0",), vram=40)
SMALL = Gpu(stack="cuda", count=2, targets=("7.5",), vram=16)
AMD = Gpu(stack="rocm", count=2, targets=("gfx90a",), vram=64)
KINDS = (LARGE, SMALL, AMD)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (NO_GPU, ""),
        (Gpu(stack="cuda", count=3), ""),
        (Gpu(stack="cuda", count=4), "it has too few GPUs of this kind: 3, and 4 are needed"),
        (Gpu(stack="cuda", count=1, targets=("8.0",)), ""),
        (Gpu(stack="rocm", count=2, vram=64), ""),
        (
            Gpu(stack="cuda", count=2, vram=40),
            "it has too few GPUs of this kind: 1, and 2 are needed",
        ),
        (
            Gpu(stack="oneapi", count=1),
            "its GPUs are for cuda, and oneapi is needed and its GPUs are for rocm, "
            "and oneapi is needed",
        ),
    ],
)
def test_whether_gpus_of_several_kinds_suit(asked: Gpu, reason: str) -> None:
    assert unsuited_kinds(asked, KINDS) == reason


def test_a_machine_of_one_kind_or_none() -> None:
    asked = Gpu(stack="cuda", count=2)
    assert unsuited_kinds(asked, (SMALL,)) == ""
    assert unsuited_kinds(asked, ()) == "it has no GPUs"


def test_gpus_of_which_nothing_is_known_suit() -> None:
    assert unsuited_kinds(Gpu(stack="rocm", count=1), (Gpu(count=1), LARGE)) == ""


def test_free_ones_are_counted_by_what_others_have() -> None:
    asked = Gpu(stack="cuda", count=1, targets=("8.0",))
    anything = Gpu(stack="cuda", count=1)
    assert has_free_gpus(asked, 1, KINDS, [])
    assert not has_free_gpus(asked, 1, KINDS, [GpuHolder(anything, 1)])
    assert has_free_gpus(asked, 1, KINDS, [GpuHolder(anything, 1, (0, 1, 0))])
    assert has_free_gpus(asked, 1, KINDS, [GpuHolder(Gpu(stack="rocm", count=2), 2)])
    assert not has_free_gpus(asked, 2, KINDS, [])


kinds = st.builds(
    Gpu,
    stack=st.sampled_from(["cuda", "rocm"]),
    count=st.integers(0, 3),
    vram=st.sampled_from([16, 40]),
)
wishes = st.builds(
    Gpu,
    stack=st.sampled_from(["cuda", "rocm"]),
    count=st.integers(1, 3),
    vram=st.sampled_from([0, 16, 40]),
)


@given(st.lists(kinds, min_size=2, max_size=4), st.lists(wishes, max_size=5))
def test_those_that_are_let_in_always_find_their_gpus(machine: list[Gpu], queue: list[Gpu]) -> None:
    """Whatever GPUs each takes of those that suit it, here the first or the last ones."""
    for is_reversed in (False, True):
        free = [kind.count for kind in machine]
        holders: list[GpuHolder] = []
        for asked in queue:
            if not has_free_gpus(asked, asked.count, machine, holders):
                continue
            left = asked.count
            for index in sorted(suited_kinds(asked, machine), reverse=is_reversed):
                taken = min(left, free[index])
                free[index] -= taken
                left -= taken
            assert left == 0
            holders.append(GpuHolder(asked, asked.count))
