"""CDI devices of GPUs."""

from __future__ import annotations

import pytest

from lading.core.containers.cdi.devices import CdiFile, find_devices
from lading.core.containers.cdi.gpus import all_names, device_names, generated, needed_hooks
from lading.core.containers.cdi.specification import (
    CdiDevice,
    CdiSpecification,
    ContainerEdits,
    DeviceNode,
    Hook,
    Mount,
    read_specification,
)

KIND = "nvidia.com/gpu"
CUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54"


def _device(name: str, *nodes: str) -> CdiDevice:
    edits = ContainerEdits(device_nodes=tuple(DeviceNode(path=node) for node in nodes))
    return CdiDevice(name=name, container_edits=edits)


NAMED = find_devices(
    [
        CdiFile(
            path="/etc/cdi/nvidia.yaml",
            rank=0,
            specification=CdiSpecification(
                cdi_version="0.5.0",
                kind=KIND,
                devices=(
                    _device(
                        "all",
                        "/dev/nvidia0",
                        "/dev/nvidia1",
                        "/dev/dri/card1",
                        "/dev/dri/renderD128",
                    ),
                    _device("0:1", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3"),
                    _device("GPU-a", "/dev/nvidia0", "/dev/dri/card1", "/dev/dri/renderD128"),
                    _device("GPU-b", "/dev/nvidia1"),
                ),
            ),
        )
    ]
)


def test_devices_are_found_by_their_nodes() -> None:
    found = device_names(NAMED, KIND, ["/dev/nvidia1", "/dev/nvidia0"])
    assert found == (f"{KIND}=GPU-b", f"{KIND}=GPU-a")
    assert device_names(NAMED, KIND, ["/dev/nvidia0", "/dev/nvidia7"]) == ()
    assert device_names(NAMED, "amd.com/gpu", ["/dev/nvidia0"]) == ()


def test_a_specification_is_made_of_what_there_is() -> None:
    libraries = [("libcuda.so.1", CUDA), ("libc.so.6", "/lib/libc.so.6"), ("libcuda.so", CUDA)]
    made = generated(
        KIND,
        {1: "/dev/nvidia1", 0: "/dev/nvidia0"},
        shared=["/dev/nvidiactl"],
        libraries=libraries,
        programs=["/usr/bin/nvidia-smi"],
    )
    assert made is not None
    assert [device.name for device in made.devices] == ["0", "1"]
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


@pytest.mark.parametrize(("kind", "numbers"), [("amd.com/gpu", {0: "/dev/dri/renderD128"})])
def test_images_bring_the_libraries_of_amd(kind: str, numbers: dict[int, str]) -> None:
    made = generated(
        kind, numbers, shared=["/dev/kfd"], libraries=[("libcuda.so.1", CUDA)], programs=["/x"]
    )
    assert made is not None
    assert made.container_edits.mounts == ()
    assert generated(kind, {}, shared=[], libraries=[], programs=[]) is None


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
