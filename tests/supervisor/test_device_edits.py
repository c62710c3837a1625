"""Files of the driver for containers with GPUs, from the specifications of a machine."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.core.gpus.devices import find_gpus
from lading.supervisor.device_edits import GpuFiles, find_files
from lading.testing.images import add_driver, make_devices

NAMES = ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm")
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return make_devices(tmp_path / "tree", cuda=2, real=False)


def files(tree: Path, *numbers: int) -> GpuFiles:
    found = find_gpus(NAMES)
    return find_files(tree, found, [found.devices[number] for number in numbers])


def specify(tree: Path, name: str = "etc/cdi/nvidia.json", **more: Any) -> Path:
    edits: Mapping[str, Any] = {
        "env": ["NVIDIA_VISIBLE_DEVICES=void"],
        "deviceNodes": [{"path": "/dev/nvidiactl"}],
        "mounts": [{"hostPath": LIBRARY, "containerPath": LIBRARY, "options": ["ro"]}],
        **more,
    }
    document = {
        "cdiVersion": "0.8.0",
        "kind": "nvidia.com/gpu",
        "devices": [
            {
                "name": f"GPU-{one}",
                "containerEdits": {"deviceNodes": [{"path": f"/dev/nvidia{one}"}]},
            }
            for one in (0, 1)
        ],
        "containerEdits": edits,
    }
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def test_a_machine_without_a_driver_gives_device_files(tree: Path) -> None:
    found = files(tree, 1)
    assert [device.target for device in found.devices] == [
        "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia1",
    ]  # fmt: skip
    assert (found.binds, found.environment, found.has_driver) == ((), (), False)


def test_the_driver_is_found_by_the_cache_of_the_loader(tree: Path) -> None:
    add_driver(tree)
    found = files(tree, 0)
    assert found.has_driver
    targets = {bind.target: bind for bind in found.binds}
    bind = targets["/usr/lib64/libcuda.so.1"]
    assert bind.readonly
    assert Path(bind.source).read_text() == (tree / LIBRARY[1:]).read_text()
    assert "/usr/bin/nvidia-smi" in targets


def test_a_specification_has_precedence(tree: Path) -> None:
    add_driver(tree)
    specify(tree)
    found = files(tree, 1)
    assert [device.target for device in found.devices] == ["/dev/nvidiactl", "/dev/nvidia1"]
    assert found.environment == (("NVIDIA_VISIBLE_DEVICES", "void"),)
    targets = [bind.target for bind in found.binds]
    # All names of the library that the machine's loader knows.
    assert {LIBRARY, "/usr/lib64/libcuda.so.1"} <= {*targets}
    assert "/usr/bin/nvidia-smi" not in targets


def test_the_later_directory_has_precedence(tree: Path) -> None:
    add_driver(tree)
    specify(tree, env=["WHO=etc"])
    specify(tree, "var/run/cdi/nvidia.yaml", env=["WHO=run"])
    assert files(tree, 0).environment == (("WHO", "run"),)


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"mounts": [{"hostPath": "/no", "containerPath": "/no"}]}, "/no is not there"),
        ({"deviceNodes": [{"path": "/dev/no"}]}, "/dev/no is not there"),
        ({"intelRdt": {"closID": "a"}}, "sets Intel RDT, which Lading does not do"),
        ({"mounts": [{"hostPath": LIBRARY, "containerPath": "/t", "type": "tmpfs"}]}, "not tmpfs"),
    ],
)
def test_what_cannot_be_done_is_a_fault_of_the_machine(
    tree: Path, more: dict[str, Any], fault: str
) -> None:
    add_driver(tree)
    specify(tree, **more)
    with pytest.raises(ExecutionError, match=fault) as caught:
        files(tree, 0)
    assert caught.value.failure is Failure.NODE


def hook(path: str, *arguments: str) -> dict[str, Any]:
    return {"hooks": [{"hookName": "createContainer", "path": path, "args": [*arguments]}]}


def test_hooks_of_root_are_run_where_mounts_do_not_do_their_work(tree: Path) -> None:
    add_driver(tree)
    program = str(Path("/usr/bin/true").resolve())
    specify(tree, **hook(program, "true", "warm-up"))
    [found] = files(tree, 0).hooks
    assert (found.stage, found.path, found.arguments) == (
        "createContainer", program, ("true", "warm-up"),
    )  # fmt: skip
    specify(tree, **hook(program, "nvidia-cdi-hook", "update-ldcache"))
    assert files(tree, 0).hooks == ()


def test_other_programs_are_no_hooks(tree: Path) -> None:
    add_driver(tree)
    program = tree / "hook"
    program.touch(mode=0o777)
    program.chmod(0o777)
    link = tree / "link"
    link.symlink_to("/usr/bin/true")
    for path, fault in ((program, "must be root's"), (link, ""), (tree / "no", "is not there")):
        specify(tree, **hook(str(path)))
        with pytest.raises(ExecutionError, match=f"CDI: the hook .*{fault}"):
            files(tree, 0)
