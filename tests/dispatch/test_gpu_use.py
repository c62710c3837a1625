"""Who has which GPU of a machine."""

from __future__ import annotations

from pathlib import Path

from lading.core.scheduling.instance_types import NO_GPU, Gpu
from lading.core.scheduling.machines import MachineGpu
from lading.dispatch.gpu_use import see_use, watch_gpus
from lading.testing.images import make_devices

UUID = "zzzzz-dz642-000000000000001"


def test_holders_are_read_from_their_files(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=4, real=False)
    locks = tmp_path / "locks"
    assert see_use(root=tree, visible="", locks=locks) == tuple(
        MachineGpu(device=f"nvidia{number}") for number in range(4)
    )
    locks.mkdir()
    run = tmp_path / "run" / UUID
    run.mkdir(parents=True)
    (locks / "cuda-0").write_text(str(run))
    (locks / "cuda-1").write_text("")
    (locks / "cuda-2").write_text(str(tmp_path / "gone" / UUID))
    (locks / "cuda-3").write_text(str(tmp_path))
    assert see_use(root=tree, visible="", locks=locks) == (
        MachineGpu(device="nvidia0", is_used=True, container=UUID),
        MachineGpu(device="nvidia1"),
        MachineGpu(device="nvidia2"),
        MachineGpu(device="nvidia3", is_used=True),
    )
    assert [gpu.device for gpu in see_use(root=tree, visible="2,0", locks=locks)] == [
        "nvidia2", "nvidia0",
    ]  # fmt: skip
    assert see_use(root=tree, visible="9", locks=locks) == ()
    assert see_use(root=tmp_path, visible="", locks=locks) == ()


def test_files_that_cannot_be_read_are_nobodys(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    for content in (b"\0", b"x" * 5000):
        (tmp_path / "cuda-0").write_bytes(content)
        assert see_use(root=tree, visible="", locks=tmp_path) == (MachineGpu(device="nvidia0"),)


def test_a_machine_without_gpus_is_not_looked_at(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    for gpu, devices in ((NO_GPU, []), (Gpu(stack="cuda", count=1), ["nvidia0"])):
        look = watch_gpus(gpu, root=tree, visible="", locks=tmp_path)
        assert [one.device for one in look()] == devices
