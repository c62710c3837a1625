"""The GPUs of a machine by their device files."""

from __future__ import annotations

import pytest

from lading.core.errors import Invalid
from lading.core.gpus.devices import (
    GpuDevice,
    GpuDevices,
    find_gpus,
    rocm_target,
    with_instances,
)
from lading.core.gpus.devices import only_cards as only

NVIDIA = ("nvidia10", "nvidia2", "nvidiactl", "nvidia-uvm", "nvidia-caps", "null", "dri/renderD128")


def test_gpus_of_nvidia_in_the_order_of_their_numbers() -> None:
    assert find_gpus(NVIDIA) == GpuDevices(
        (GpuDevice(2, "nvidia2"), GpuDevice(10, "nvidia10")),
        {"cuda": ("nvidiactl", "nvidia-uvm")},
    )


def test_gpus_of_amd_need_the_compute_driver() -> None:
    assert find_gpus(["dri/renderD129", "dri/card0"]) == find_gpus(["kfd"]) == GpuDevices()
    assert find_gpus(["dri/renderD129", "kfd"]) == GpuDevices(
        (GpuDevice(1, "dri/renderD129", "rocm"),), {"rocm": ("kfd",)}
    )


MIXED = find_gpus(
    [*NVIDIA, "kfd", "dri/renderD129", "dri/renderD130", "dri/renderD131"],
    {
        "dri/renderD128": "0x10de",
        "dri/renderD129": "0x1002",
        "dri/renderD130": "0x8086",
        "dri/renderD131": "0x1234",
    },
)


def test_gpus_of_several_makers() -> None:
    assert [(gpu.stack, gpu.device, gpu.lock) for gpu in MIXED.devices] == [
        ("cuda", "nvidia2", "cuda-2"),
        ("cuda", "nvidia10", "cuda-10"),
        ("rocm", "dri/renderD129", "rocm-1"),
        ("oneapi", "dri/renderD130", "oneapi-2"),
    ]
    assert set(MIXED.shared) == {"cuda", "rocm"}
    assert MIXED.devices[0].fault_file == "cuda-2.fault"


def test_a_number_of_several_makers_names_none() -> None:
    with pytest.raises(Invalid, match="is one of dri/renderD130, nvidia2; name the device file"):
        only(MIXED, "2")
    assert [gpu.device for gpu in only(MIXED, "nvidia2,/dev/dri/renderD130,10").devices] == [
        "nvidia2", "dri/renderD130", "nvidia10",
    ]  # fmt: skip
    with pytest.raises(Invalid, match="there are: nvidia2, nvidia10, dri/renderD129"):
        only(MIXED, "7")


PARTS = [
    GpuDevice(
        0, "nvidia0", uuid="MIG-aaaaaaaa", instance="0:0", kinds=("1g.5gb",), memory=5,
        parts=("nvidia-caps/nvidia-cap11", "nvidia-caps/nvidia-cap12"),
    ),
    GpuDevice(0, "nvidia0", instance="0:1", parts=("nvidia-caps/nvidia-cap21",)),
]  # fmt: skip


def test_instances_take_the_place_of_their_gpu() -> None:
    gpus = find_gpus(["nvidia0", "nvidia1"])
    divided = with_instances(gpus, [*PARTS, PARTS[0]])
    assert [(gpu.name, gpu.lock) for gpu in divided.devices] == [
        ("nvidia0:0", "cuda-0-cap11-cap12"),
        ("nvidia0:1", "cuda-0-cap21"),
        ("nvidia1", "cuda-1"),
    ]
    assert with_instances(gpus, []) == gpus
    assert [gpu.name for gpu in only(divided, "0:1").devices] == ["nvidia0:1"]
    assert [gpu.name for gpu in only(divided, "MIG-aaaaaa").devices] == ["nvidia0:0"]
    assert [gpu.name for gpu in only(divided, "0").devices] == ["nvidia0:0", "nvidia0:1"]
    with pytest.raises(Invalid, match="there are: 0:0, 0:1, 1"):
        only(divided, "MIG-")


def test_only_those_that_are_visible() -> None:
    gpus = find_gpus(NVIDIA)
    assert only(gpus, "") == gpus
    assert [card.number for card in only(gpus, "10, 2,10").devices] == [10, 2]
    with pytest.raises(Invalid, match="GPU ''"):
        only(find_gpus(["nvidia0"]), "0,")
    for machine, names in ((gpus, "2, 10"), (GpuDevices(), "none")):
        with pytest.raises(
            Invalid, match=f"GPU '3': no device of this machine has that number; there are: {names}"
        ):
            only(machine, "3")


@pytest.mark.parametrize(
    ("number", "name"), [(90010, "gfx90a"), (110003, "gfx1103"), (90402, "gfx942")]
)
def test_architectures_have_the_names_of_their_maker(number: int, name: str) -> None:
    assert rocm_target(number) == name
