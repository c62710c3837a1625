"""CDI devices of GPUs."""

from __future__ import annotations

import pytest
from msgspec import structs

from lading.core.containers.cdi.devices import CdiDevices, CdiFile, find_devices
from lading.core.containers.cdi.gpus import (
    KINDS,
    all_names,
    device_names,
    find_instances,
    generated,
    needed_hooks,
)
from lading.core.containers.cdi.specification import (
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    read_specification,
)
from lading.core.gpus.devices import GpuDevice

KIND = "nvidia.com/gpu"
CUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54"


def _device(name: str, *nodes: str) -> CdiDevice:
    edits = ContainerEdits(device_nodes=tuple(DeviceNode(path=node) for node in nodes))
    return CdiDevice(name=name, container_edits=edits)


def _specification(*devices: CdiDevice) -> CdiDevices:
    return find_devices(
        [
            CdiFile(
                path="/etc/cdi/nvidia.yaml",
                rank=0,
                specification=CdiSpecification(cdi_version="0.6.0", kind=KIND, devices=devices),
            )
        ]
    )


NAMED = _specification(
    _device("all", "/dev/nvidia0", "/dev/nvidia1", "/dev/dri/card1", "/dev/dri/renderD128"),
    _device("0:1", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"),
    _device("GPU-a", "/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"),
    _device("GPU-b", "/dev/nvidia1"),
)


ZERO, ONE = GpuDevice(0, "nvidia0"), GpuDevice(1, "nvidia1")


def test_devices_are_found_by_their_nodes() -> None:
    assert device_names(NAMED, [ONE, ZERO]) == (f"{KIND}=GPU-b", f"{KIND}=GPU-a")
    assert device_names(NAMED, [ZERO, GpuDevice(7, "nvidia7")]) == ()
    assert device_names(NAMED, [GpuDevice(0, "dri/renderD128", "rocm")]) == ()


def test_a_device_is_not_taken_that_gives_another_gpu_too() -> None:
    shared = ContainerEdits(
        device_nodes=tuple(DeviceNode(path=f"/dev/nvidia{number}") for number in (0, 1))
    )
    file, _ = next(iter(NAMED.devices.values()))
    specification = structs.replace(file.specification, container_edits=shared)
    devices = find_devices([CdiFile(path=file.path, rank=0, specification=specification)])
    assert device_names(devices, [ZERO]) == ()


def test_instances_are_devices_with_capabilities() -> None:
    caps = ("/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4")
    notes = structs.replace(
        _device("MIG-1", "/dev/nvidia0", *caps), annotations={"profile": "1g.10gb"}
    )
    devices = _specification(
        notes,
        _device("0:2", "/dev/nvidia0", *caps),
        _device("all", "/dev/nvidia0", "/dev/nvidia1", *caps),
    )
    [instance] = find_instances(devices)
    assert instance == GpuDevice(
        0, "nvidia0", uuid="MIG-1", instance="0:2", kinds=("1g.10gb",), memory=10 << 30,
        parts=("nvidia-caps/nvidia-cap3", "nvidia-caps/nvidia-cap4"),
    )  # fmt: skip
    assert device_names(devices, [instance]) == (f"{KIND}=0:2",)
    # The whole GPU has no device: `all` has others too.
    assert device_names(devices, [ZERO]) == ()
    backwards = _specification(_device("MIG-1", "/dev/nvidia0", *caps))
    assert [one.instance for one in find_instances(backwards)] == ["MIG-1"]


def test_a_specification_is_made_of_what_there_is() -> None:
    libraries = [("libcuda.so.1", CUDA), ("libc.so.6", "/lib/libc.so.6"), ("libcuda.so", CUDA)]
    made = generated(
        KIND,
        [ZERO, GpuDevice(1, "nvidia1", instance="1:0", parts=("nvidia-caps/nvidia-cap3",))],
        shared=["nvidiactl"],
        libraries=libraries,
        programs=["/usr/bin/nvidia-smi"],
    )
    assert made is not None
    assert [device.name for device in made.devices] == ["0", "1:0"]
    assert [mount.host_path for mount in made.container_edits.mounts] == [
        CUDA, "/usr/bin/nvidia-smi",
    ]  # fmt: skip
    # What is made is a specification that would be read.
    read_specification(
        {
            "cdiVersion": made.cdi_version,
            "kind": made.kind,
            "devices": [{"name": "0", "containerEdits": {"deviceNodes": [{"path": "/dev/a"}]}}],
        }
    )


@pytest.mark.parametrize("stack", ["rocm", "oneapi"])
def test_images_bring_the_libraries_of_other_makers(stack: str) -> None:
    gpus = [GpuDevice(0, "dri/renderD128", stack)]
    made = generated(
        KINDS[stack], gpus, shared=[], libraries=[("libcuda.so.1", CUDA)], programs=["/x"]
    )
    assert made is not None
    assert made.container_edits.mounts == ()
    files = [CdiFile(path="", rank=0, specification=made)]
    assert device_names(find_devices(files), gpus) == (f"{KINDS[stack]}=0",)
    assert generated(KINDS[stack], [], shared=[], libraries=[], programs=[]) is None


def test_a_library_has_all_its_names_in_every_directory_that_is_searched() -> None:
    mounts = [
        (Mount(host_path=CUDA, container_path=CUDA), CUDA),
        (Mount(host_path="/etc/v", container_path="/etc/v"), "/etc/v"),
    ]
    binds = {
        target: source
        for source, target in all_names(mounts, {CUDA: ["libcuda.so.1", "libcuda.so"]}, "x86_64")
    }
    assert binds["/etc/v"] == "/etc/v"
    folders = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64")
    names = ("libcuda.so.550.54", "libcuda.so.1", "libcuda.so")
    wanted = {f"{folder}/{name}" for folder in folders for name in names}
    assert {target for target, source in binds.items() if source == CUDA} == wanted


def test_hooks_whose_work_mounts_do_are_not_run() -> None:
    done = Hook(hook_name="createContainer", path="/bin/h", args=("h", "update-ldcache"))
    other = Hook(hook_name="createContainer", path="/bin/h", args=("h", "warm-up"))
    assert needed_hooks(ContainerEdits(hooks=(done, other))) == (other,)
