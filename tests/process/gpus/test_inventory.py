"""What files and the driver tell of the GPUs of a machine."""

from __future__ import annotations

from pathlib import Path

from lading.process.gpus.inventory import find_devices, find_machine, list_devices
from lading.testing.gpu_machines import add_information, reading, write_readings
from lading.testing.images import make_devices


def test_gpus_of_three_makers(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, cuda=1, rocm=2, intel=1, real=False)
    add_information(tree, 0)
    assert "dri/renderD128" in list_devices(tree)
    nvidia, *amd, intel = find_devices(tree).devices
    assert (nvidia.uuid, nvidia.bus, nvidia.kinds) == (
        "GPU-00000000",
        "0000:00:00",
        ("8.0", "a100"),
    )
    assert [(gpu.stack, gpu.kinds, gpu.memory >> 34) for gpu in amd] == [
        ("rocm", ("gfx90a",), 1),
        ("rocm", ("gfx90a",), 2),
    ]
    assert (intel.stack, intel.device) == ("oneapi", "dri/renderD130")


def test_each_gpu_of_amd_has_its_own_architecture(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, rocm=2, real=False)
    nodes = tree / "sys/class/kfd/kfd/topology/nodes"
    for number, version in ((1, 90010), (2, 110003)):
        (nodes / f"{number}/properties").write_text(
            f"gfx_target_version {version}\ndrm_render_minor {127 + number}\n"
        )
    name = tree / "sys/class/drm/renderD128/device/product_name"
    name.write_text("AMD Instinct MI250X\n")
    assert [gpu.kinds for gpu in find_devices(tree).devices] == [
        ("gfx90a", "mi250x"),
        ("gfx1103",),
    ]


def test_answers_of_the_driver_belong_to_gpus_by_their_addresses(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, cuda=2, real=False)
    for number in (0, 1):
        add_information(tree, number)
    write_readings(tree, [reading(1, memory=1), reading(0, memory=2), reading(7)])
    gpus, readings = find_machine(tree)
    assert [gpu.memory >> 20 for gpu in gpus.devices] == [2, 1]
    assert readings["nvidia1"].uuid == "GPU-00000001"


def test_answers_that_belong_to_none_are_left_out(tmp_path: Path) -> None:
    tree = make_devices(tmp_path, cuda=2, real=False)
    write_readings(tree, [reading(0)])
    gpus, readings = find_machine(tree)
    assert (readings, [gpu.memory for gpu in gpus.devices]) == ({}, [0, 0])
