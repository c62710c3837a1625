from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.gpus.devices import GpuDevice
from lading.supervisor.container_spec import free_binds
from lading.supervisor.engines import Bind, Device
from lading.supervisor.limits.gpu_locks import GpuLocks, LockedGpus
from lading.supervisor.supervisor_config import SupervisorConfig
from lading.testing.gpu_machines import add_information, add_instances
from lading.testing.images import add_driver, make_devices

ONE = {"gpu": {"stack": "cuda", "device_count": 1}}


@pytest.fixture
def told(tmp_path: Path) -> SupervisorConfig:
    make_devices(tmp_path / "tree", cuda=2, real=False)
    return SupervisorConfig(
        container_uuid="u", supervisor_token="t", run_directory=str(tmp_path / "run"),
        cache_directory="/c", device_root=str(tmp_path / "tree"),
        device_directory=str(tmp_path / "locks"),
    )  # fmt: skip


def wish(count: int, stack: str = "cuda") -> dict[str, object]:
    return {"gpu": {"stack": stack, "device_count": count}}


async def test_who_asks_for_none_gets_none(told: SupervisorConfig) -> None:
    assert (
        await GpuLocks(structs.replace(told, device_root="/none")).take({"ram": 1}) == LockedGpus()
    )
    assert LockedGpus().sentence == ""


async def test_the_devices_of_the_gpu_and_those_that_all_need(told: SupervisorConfig) -> None:
    locks = GpuLocks(told)
    given = await locks.take(ONE)
    names = [f"/dev/{name}" for name in ("nvidiactl", "nvidia-uvm", "nvidia0")]
    assert given == LockedGpus(
        devices=tuple(Device(f"{told.device_root}{name}", name) for name in names),
        cuda=(0,),
    )
    assert given.sentence == "given the devices /dev/nvidiactl, /dev/nvidia-uvm, /dev/nvidia0"
    locks.release()


async def test_the_files_of_the_driver_are_given_instead_of_numbers(told: SupervisorConfig) -> None:
    add_driver(Path(told.device_root))
    locks = GpuLocks(told)
    given = await locks.take(ONE)
    assert given.cuda == ()
    assert "/usr/lib64/libcuda.so.1" in {bind.target for bind in given.binds}
    assert given.sentence.endswith("files of their driver")
    locks.release()


async def test_a_fault_of_a_specification_frees_the_gpus(told: SupervisorConfig) -> None:
    folder = Path(told.device_root) / "etc/cdi"
    folder.mkdir(parents=True)
    edits = {"deviceNodes": [{"path": "/dev/nvidia0"}]}
    specification = {
        "cdiVersion": "0.8.0", "kind": "nvidia.com/gpu",
        "devices": [{"name": "0", "containerEdits": edits}],
        "containerEdits": {"mounts": [{"hostPath": "/no", "containerPath": "/no"}]},
    }  # fmt: skip
    (folder / "nvidia.json").write_text(json.dumps(specification))
    with pytest.raises(ExecutionError, match="/no is not there"):
        await GpuLocks(told).take(ONE)
    (folder / "nvidia.json").unlink()
    locks = GpuLocks(told)
    assert (await locks.take(wish(2))).cuda == (0, 1)
    locks.release()


def test_binds_of_a_request_come_first() -> None:
    own = [Bind("/x", "/usr/lib64", True), Bind("/y", "/a/b", True)]
    binds = [Bind("/l", at, True) for at in ("/usr/lib64/l", "/usr/lib/l", "/a/b", "/a/bc")]
    assert [bind.target for bind in free_binds(binds, own)] == ["/usr/lib/l", "/a/bc"]


async def test_no_two_have_the_same(told: SupervisorConfig) -> None:
    first, second, third = (GpuLocks(told) for _ in range(3))
    assert [(await one.take(ONE)).cuda for one in (first, second)] == [(0,), (1,)]
    with pytest.raises(
        ExecutionError, match="fewer than 1 of the 2 GPUs of this machine are free"
    ) as caught:
        await third.take(ONE, patience=0.0)
    assert caught.value.failure is Failure.NODE
    first.release()
    first.release()
    assert (await third.take(ONE)).cuda == (0,)
    second.release()
    third.release()


async def test_all_or_none(told: SupervisorConfig) -> None:
    first, second = GpuLocks(told), GpuLocks(told)
    await first.take(ONE)
    with pytest.raises(ExecutionError, match="fewer than 2"):
        await second.take(wish(2), patience=0.0)
    first.release()
    assert (await second.take(wish(2))).cuda == (0, 1)
    second.release()


async def test_the_gpu_of_a_dead_one_is_kept_until_its_directory_is_gone(
    told: SupervisorConfig,
) -> None:
    dead = structs.replace(told, run_directory=f"{told.run_directory}-dead")
    Path(dead.run_directory).mkdir()
    Path(told.device_directory).mkdir()
    (Path(told.device_directory) / "cuda-0").write_text(dead.run_directory)
    locks = GpuLocks(told)
    assert (await locks.take(ONE)).cuda == (1,)
    locks.release()
    Path(dead.run_directory).rmdir()
    assert (await locks.take(ONE)).cuda == (0,)
    locks.release()


async def test_only_what_is_visible_is_given(told: SupervisorConfig) -> None:
    locks = GpuLocks(structs.replace(told, visible_gpus="1"))
    assert (await locks.take(ONE)).cuda == (1,)
    locks.release()
    with pytest.raises(ExecutionError, match="GPU '7': no device"):
        await GpuLocks(structs.replace(told, visible_gpus="7")).take(ONE)


@pytest.mark.parametrize(
    ("count", "stack", "why"), [(3, "cuda", "too few GPUs"), (1, "rocm", "for cuda")]
)
async def test_a_machine_that_has_none_of_the_kind(
    told: SupervisorConfig, count: int, stack: str, why: str
) -> None:
    with pytest.raises(ExecutionError, match=f"this machine cannot run it: .*{why}"):
        await GpuLocks(told).take(wish(count, stack))


async def test_gpus_of_amd_have_no_numbers_for_nvidia(
    told: SupervisorConfig, tmp_path: Path
) -> None:
    tree = make_devices(tmp_path / "amd", rocm=2, real=False)
    locks = GpuLocks(structs.replace(told, device_root=str(tree)))
    given = await locks.take(wish(2, "rocm"))
    assert [device.target for device in given.devices] == [
        "/dev/kfd",
        "/dev/dri/renderD128",
        "/dev/dri/renderD129",
    ]
    assert given.cuda == ()
    locks.release()


async def test_a_directory_that_cannot_be_made_is_named(told: SupervisorConfig) -> None:
    with pytest.raises(ExecutionError, match="/dev/null/gpus .*set Local.ShareDirectory"):
        await GpuLocks(structs.replace(told, device_directory="/dev/null/gpus")).take(ONE)


async def test_makers_are_given_apart(tmp_path: Path, told: SupervisorConfig) -> None:
    tree = make_devices(tmp_path / "mixed", cuda=1, rocm=1, intel=1, real=False)
    config = structs.replace(told, device_root=str(tree))
    for stack, devices in (
        ("cuda", ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia0"]),
        ("rocm", ["/dev/kfd", "/dev/dri/renderD128"]),
        ("oneapi", ["/dev/dri/renderD129"]),
    ):
        locks = GpuLocks(config)
        files = await locks.take(wish(1, stack))
        assert [device.target for device in files.devices] == devices
        with pytest.raises(ExecutionError, match="fewer than 1 of the 1 GPUs"):
            await GpuLocks(config).take(wish(1, stack), patience=0.0)
        locks.release()


async def test_instances_are_given_with_their_capabilities(told: SupervisorConfig) -> None:
    add_instances(Path(told.device_root), real=False)
    first, second = GpuLocks(told), GpuLocks(told)
    assert [device.target for device in (await first.take(ONE)).devices] == [
        "/dev/nvidiactl",
        "/dev/nvidia0",
        "/dev/nvidia-caps/nvidia-cap11",
        "/dev/nvidia-caps/nvidia-cap12",
    ]
    nodes = {device.target for device in (await second.take(ONE)).devices}
    assert "/dev/nvidia-caps/nvidia-cap21" in nodes
    assert "/dev/nvidia-caps/nvidia-cap11" not in nodes
    first.release()
    second.release()
    only = GpuLocks(structs.replace(told, visible_gpus="MIG-bbbbbbbb"))
    await only.take(ONE)
    assert [gpu.name for gpu in only.taken] == ["nvidia0:1"]
    only.release()


async def test_the_smallest_that_suits_is_given(told: SupervisorConfig) -> None:
    gpus = (
        GpuDevice(0, "nvidia0", kinds=("8.0",), memory=40),
        GpuDevice(1, "nvidia1", kinds=("7.5",), memory=16),
    )
    config = structs.replace(told, gpus=gpus)
    locks = GpuLocks(config)
    await locks.take(ONE)
    assert [gpu.number for gpu in locks.taken] == [1]
    large = {"gpu": {"stack": "cuda", "device_count": 1, "vram": 40}}
    other = GpuLocks(config)
    await other.take(large)
    assert [gpu.number for gpu in other.taken] == [0]
    locks.release()
    other.release()


async def test_a_gpu_that_is_out_of_service_is_given_to_nobody(told: SupervisorConfig) -> None:
    directory = Path(told.device_directory)
    directory.mkdir()
    (directory / "cuda-0.fault").touch()
    locks = GpuLocks(told)
    assert (await locks.take(ONE)).cuda == (1,)
    locks.release()
    with pytest.raises(ExecutionError, match="fewer than 2 of the 2 GPUs"):
        await locks.take(wish(2), patience=0.0)


async def test_the_device_plugin_says_which_gpu_a_pod_has(
    told: SupervisorConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = Path(told.device_root)
    for number in (0, 1):
        add_information(tree, number)
    for words, number in (("GPU-00000001", 1), ("all", 0), ("void", 0)):
        monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", words)
        locks = GpuLocks(told)
        assert (await locks.take(ONE)).cuda == (number,)
        locks.release()
    (tree / "dev/nvidia1").unlink()
    (tree / "dev/nvidia-caps").mkdir()
    (tree / "dev/nvidia-caps/nvidia-cap3").touch()
    monkeypatch.setenv("NVIDIA_VISIBLE_DEVICES", "MIG-1")
    given = await GpuLocks(told).take(ONE)
    assert given.devices[-1].target == "/dev/nvidia-caps/nvidia-cap3"


async def test_a_gpu_is_free_whose_file_names_no_directory(told: SupervisorConfig) -> None:
    locks = GpuLocks(told)
    Path(told.device_directory).mkdir()
    (Path(told.device_directory) / "cuda-0").write_text("x" * 5000)
    assert (await locks.take(ONE, patience=0)).devices
    assert locks.taken[0].device == "nvidia0"
    locks.release()


async def test_a_fault_of_one_file_holds_no_other_gpu(told: SupervisorConfig) -> None:
    directory = Path(told.device_directory)
    (directory / "cuda-1").mkdir(parents=True)
    with pytest.raises(ExecutionError, match="cannot be shared out"):
        await GpuLocks(told).take(wish(2), patience=0)
    (directory / "cuda-1").rmdir()
    locks = GpuLocks(structs.replace(told, run_directory="/another"))
    assert (await locks.take(wish(2), patience=0)).devices
    locks.release()


async def test_two_that_ask_for_all_at_a_time_share_none(told: SupervisorConfig) -> None:
    first, second = GpuLocks(told), GpuLocks(structs.replace(told, run_directory="/another"))
    answers = await asyncio.gather(
        *(locks.take(wish(2), patience=2) for locks in (first, second)), return_exceptions=True
    )
    assert [isinstance(answer, LockedGpus) for answer in answers].count(True) == 1
    first.release()
    second.release()
