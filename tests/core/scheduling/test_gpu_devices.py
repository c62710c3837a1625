from __future__ import annotations

import pytest
from msgspec import structs

from lading.core.errors import Invalid
from lading.core.scheduling.gpu_devices import (
    GpuDevice,
    GpuDevices,
    find_gpus,
    lock_name,
    rocm_target,
)
from lading.core.scheduling.gpu_devices import only_cards as only
from lading.core.scheduling.gpu_devices import unsuited_gpu as unsuited
from lading.core.scheduling.instance_types import NO_GPU, Gpu

NVIDIA = ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-caps", "null", "dri/renderD128")
ASKED = Gpu(stack="cuda", count=1, driver="12.0", targets=("8.0",), vram=10)


def test_gpus_of_nvidia_in_the_order_of_their_numbers() -> None:
    found = find_gpus(NVIDIA)
    assert found == GpuDevices(
        "cuda", (GpuDevice(2, "nvidia2"), GpuDevice(10, "nvidia10")), ("nvidiactl", "nvidia-uvm")
    )


def test_gpus_of_amd_need_the_compute_driver() -> None:
    assert find_gpus(["dri/renderD129", "dri/card0"]) == find_gpus(["kfd"]) == GpuDevices()
    assert find_gpus(["dri/renderD129", "kfd"]) == GpuDevices(
        "rocm", (GpuDevice(1, "dri/renderD129"),), ("kfd",)
    )


def test_only_those_that_are_visible() -> None:
    found = find_gpus(NVIDIA)
    assert only(found, "") == found
    assert [card.number for card in only(found, "10, 2,10").devices] == [10, 2]
    for given, there in ((found, "2, 10"), (GpuDevices(), "none")):
        with pytest.raises(
            Invalid, match=f"GPU '3': no device of this machine has that number; there are: {there}"
        ):
            only(given, "3")


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ({}, ""),
        ({"driver": "12.2", "targets": ("8.6",), "vram": 10}, ""),
        ({"driver": "11.4"}, "driver is too old"),
        ({"targets": ("7.5",)}, "another kind"),
        ({"vram": 9}, "too little memory"),
        ({"stack": "rocm"}, "for rocm"),
        ({"count": 0}, "has no GPUs"),
    ],
)
def test_what_is_known_is_compared(there: dict[str, object], why: str) -> None:
    found = unsuited(ASKED, structs.replace(Gpu(stack="cuda", count=2), **there))
    assert why in found
    assert bool(found) is bool(why)


def test_the_lock_of_a_gpu_has_its_number() -> None:
    assert lock_name("cuda", GpuDevice(2, "nvidia2")) == "cuda-2"


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


@pytest.mark.parametrize(
    ("number", "name"), [(90010, "gfx90a"), (110003, "gfx1103"), (90402, "gfx942")]
)
def test_architectures_have_the_names_of_their_maker(number: int, name: str) -> None:
    assert rocm_target(number) == name
