"""GPUs of several kinds in one machine."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lading.core.gpus.devices import GpuDevice, GpuDevices, find_gpus
from lading.core.scheduling.gpu_kinds import (
    GpuHolder,
    has_free_gpus,
    kinds_of,
    suited_kinds,
    unsuited_kinds,
)
from lading.core.scheduling.gpu_kinds import unsuited_gpu as unsuited
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


ASKED = Gpu(stack="cuda", count=1, driver="12.0", targets=("8.0",), vram=10)


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({}, ""),
        ({"driver": "12.2", "targets": ("8.6",), "vram": 10}, ""),
        ({"driver": "11.4"}, "driver is too old"),
        ({"targets": ("7.5",)}, "another kind"),
        ({"vram": 9}, "too little memory"),
        ({"stack": "rocm"}, "for rocm"),
        ({"stack": ""}, ""),
        ({"count": 0}, "has no GPUs"),
    ],
)
def test_what_is_known_is_compared(there: dict[str, object], why: str) -> None:
    found = unsuited(ASKED, structs.replace(Gpu(stack="cuda", count=2), **there))
    assert why in found
    assert bool(found) is bool(why)


def test_a_container_without_gpus_suits_any_machine() -> None:
    assert unsuited(Gpu(stack="cuda"), Gpu()) == ""


def test_who_asks_for_nothing_in_particular_takes_any() -> None:
    assert (
        unsuited(
            Gpu(stack="rocm", count=1),
            Gpu(stack="rocm", count=1, targets=("gfx90a",), driver="6.0"),
        )
        == ""
    )
    bare = Gpu(stack="cuda", count=1)
    assert unsuited(structs.replace(bare, driver="0.0"), bare) == ""
    assert unsuited(bare, structs.replace(bare, driver="12.2", targets=("8.0",), vram=1)) == ""
    assert unsuited(NO_GPU, NO_GPU) == ""


INSTANCE = GpuDevice(0, "nvidia0", instance="0:0", kinds=("1g.5gb",), memory=5)


def test_kinds_with_their_numbers() -> None:
    large = GpuDevice(1, "nvidia1", kinds=("8.0",), memory=40, driver="12.4")
    gpus = GpuDevices((large, structs.replace(large, number=2), INSTANCE))
    assert kinds_of(gpus, NO_GPU) == (
        Gpu(stack="cuda", count=1, targets=("1g.5gb",), vram=5),
        Gpu(stack="cuda", count=2, targets=("8.0",), vram=40, driver="12.4"),
    )
    configured = Gpu(driver="11.0", targets=("8.6",), vram=24)
    assert kinds_of(gpus, configured) == (
        Gpu(stack="cuda", count=1, targets=("8.6",), vram=5, driver="11.0"),
        Gpu(stack="cuda", count=2, targets=("8.6",), vram=24, driver="11.0"),
    )
    mixed = find_gpus(["nvidia0", "kfd", "dri/renderD129"], {"dri/renderD129": "0x1002"})
    # In a machine of several makers the configuration is about those of NVIDIA.
    assert [kind.driver for kind in kinds_of(mixed, configured)] == ["11.0", ""]
