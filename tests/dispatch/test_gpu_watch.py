"""The GPUs of a machine: who has which, their use, and their faults."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.errors import Invalid
from lading.core.scheduling.instance_types import Gpu
from lading.core.scheduling.machines import MachineGpu
from lading.dispatch.gpu_watch import GpuWatch
from lading.testing.gpu_machines import (
    add_information,
    add_instances,
    log_xid,
    reading,
    write_readings,
)
from lading.testing.images import make_devices

UUID = "zzzzz-dz642-000000000000001"


def hold(tmp_path: Path, lock: str, uuid: str = UUID) -> None:
    run = tmp_path / "run" / uuid
    run.mkdir(parents=True, exist_ok=True)
    (tmp_path / "locks").mkdir(exist_ok=True)
    (tmp_path / "locks" / lock).write_text(str(run))


def test_holders_are_read_from_their_files(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=4, real=False)
    locks = tmp_path / "locks"
    watch = GpuWatch(tree, locks=locks)
    assert watch.report() == tuple(MachineGpu(device=f"nvidia{number}") for number in range(4))
    hold(tmp_path, "cuda-0")
    (locks / "cuda-1").write_text("")
    (locks / "cuda-2").write_text(str(tmp_path / "gone" / UUID))
    (locks / "cuda-3").write_text(str(tmp_path))
    assert watch.report() == (
        MachineGpu(device="nvidia0", is_used=True, container=UUID),
        MachineGpu(device="nvidia1"),
        MachineGpu(device="nvidia2"),
        MachineGpu(device="nvidia3", is_used=True),
    )
    chosen = GpuWatch(tree, locks=locks, visible="2,0").report()
    assert [gpu.device for gpu in chosen] == ["nvidia2", "nvidia0"]
    with pytest.raises(Invalid, match="GPU '9'"):
        GpuWatch(tree, locks=locks, visible="9")


@pytest.mark.parametrize("content", [b"\0", b"x" * 5000])
def test_files_that_cannot_be_read_are_nobodys(tmp_path: Path, content: bytes) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    (tmp_path / "cuda-0").write_bytes(content)
    assert GpuWatch(tree, locks=tmp_path).report() == (MachineGpu(device="nvidia0"),)


def test_a_machine_without_gpus_is_not_looked_at(tmp_path: Path) -> None:
    watch = GpuWatch(tmp_path, locks=tmp_path / "locks")
    assert (watch.devices, watch.kinds, watch.report(), watch.look()) == ((), (), (), False)
    assert not (tmp_path / "locks").exists()


def test_kinds_and_use_are_told_by_the_driver(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=2, real=False)
    for number in (0, 1):
        add_information(tree, number)
    small = reading(1, name="Tesla T4", memory=15360, capability="7.5", busy="[N/A]", used=0)
    write_readings(tree, [small, reading(0)])
    watch = GpuWatch(tree, locks=tmp_path / "locks")
    assert watch.kinds == (
        Gpu(stack="cuda", count=1, targets=("7.5", "t4"), vram=15360 << 20, driver="12.4"),
        Gpu(stack="cuda", count=1, targets=("8.0", "a100"), vram=40 << 30, driver="12.4"),
    )
    large, _ = watch.report()
    assert (large.busy, large.memory, large.memory_used) == (0.5, 40 << 30, 1 << 30)
    assert GpuWatch(tree, locks=tmp_path, visible="GPU-00000001").devices[0].number == 1
    hold(tmp_path, "cuda-1")
    assert watch.numbers() == {UUID: (1, 0)}


def test_instances_are_gpus_of_their_own(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=2, real=False)
    add_instances(tree, real=False)
    write_readings(tree, [reading(0, mig="Enabled"), reading(1)])
    watch = GpuWatch(tree, locks=tmp_path / "locks")
    assert [gpu.device for gpu in watch.report()] == ["nvidia0:0", "nvidia0:1", "nvidia1"]
    assert [(kind.count, kind.targets, kind.vram >> 30) for kind in watch.kinds] == [
        (2, ("8.0", "1g.10gb"), 10),
        (1, ("8.0", "a100"), 40),
    ]
    assert watch.fault == ""


def test_a_divided_gpu_without_a_specification_is_out_of_service(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    write_readings(tree, [reading(0, mig="Enabled")])
    watch = GpuWatch(tree, locks=tmp_path / "locks")
    assert watch.fault.startswith("nvidia0: it is divided (MIG)")
    assert watch.kinds == ()


def test_memory_errors_end_when_the_gpu_reads_healthy(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=2, real=False)
    locks = tmp_path / "locks"
    write_readings(tree, [reading(0, errors=2), reading(1)])
    watch = GpuWatch(tree, locks=locks)
    assert watch.fault == "nvidia0: 2 memory errors not corrected since its reset; reset it"
    assert (watch.kinds[0].count, watch.may_restore) == (1, False)
    assert (locks / "cuda-0.fault").exists()
    write_readings(tree, [reading(0), reading(1)])
    assert watch.look()
    assert (watch.fault, watch.kinds[0].count, (locks / "cuda-0.fault").exists()) == ("", 2, False)
    assert not watch.look()


def test_an_xid_lasts_until_the_gpus_are_restored(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=2, real=False)
    locks = tmp_path / "locks"
    for number in (0, 1):
        add_information(tree, number)
    boot = tree / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("one\n")
    watch = GpuWatch(tree, locks=locks)
    # Of a program, not of the GPU.
    log_xid(tree, 1, 31)
    assert not watch.look()
    log_xid(tree, 1, 48, record=2)
    assert watch.look()
    assert watch.fault == "nvidia1: Xid 48 (memory error of two bits) in the kernel's log"
    assert watch.may_restore
    # Another dispatcher of the machine knows it too, and nobody reads the record again.
    later = GpuWatch(tree, locks=locks)
    assert later.fault == watch.fault
    later.restore()
    assert (later.fault, GpuWatch(tree, locks=locks).fault) == ("", "")
    log_xid(tree, 0, 79, record=3)
    assert GpuWatch(tree, locks=locks).fault.startswith("nvidia0: Xid 79")
    # The machine is started again.
    boot.write_text("two\n")
    (tree / "dev/kmsg").write_text("")
    assert GpuWatch(tree, locks=locks).fault == ""


def test_an_admin_may_take_a_gpu_out_by_hand(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    (tmp_path / "cuda-0.fault").touch()
    watch = GpuWatch(tree, locks=tmp_path)
    assert watch.fault == "nvidia0: an admin has taken it out of service"
    assert watch.may_restore


def test_amd_tells_its_faults_by_the_kernel(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", rocm=2, intel=1, real=False)
    device = tree / "sys/class/drm/renderD128/device"
    (device / "ras").mkdir()
    (device / "ras/umc_err_count").write_text("ue: 1\nce: 5\n")
    (device / "gpu_busy_percent").write_text("75\n")
    (device / "mem_info_vram_used").write_text(f"{1 << 30}\n")
    watch = GpuWatch(tree, locks=tmp_path / "locks")
    first = watch.report()[0]
    assert (first.busy, first.memory_used) == (0.75, 1 << 30)
    assert first.fault.startswith("1 memory error not corrected")
    assert [(kind.stack, kind.count) for kind in watch.kinds] == [("oneapi", 1), ("rocm", 1)]


def test_gpus_without_a_directory_for_locks_are_watched_all_the_same(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    (tmp_path / "file").touch()
    write_readings(tree, [reading(0, worn="Yes")])
    watch = GpuWatch(tree, locks=tmp_path / "file/locks")
    assert "could not be remapped" in watch.fault


def test_an_xid_of_another_dispatchers_gpu_is_kept_for_it(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=2, real=False)
    locks = tmp_path / "locks"
    for number in (0, 1):
        add_information(tree, number)
    first = GpuWatch(tree, locks=locks, visible="0")
    second = GpuWatch(tree, locks=locks, visible="1")
    log_xid(tree, 1, 79)
    assert not first.look()
    assert second.look()
    assert (first.fault, second.fault[:15]) == ("", "nvidia1: Xid 79")


def test_the_file_of_a_fault_may_be_a_link(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    (tmp_path / "cuda-0.fault").symlink_to("/dev/zero")
    assert "an admin has taken it" in GpuWatch(tree, locks=tmp_path).fault


def test_the_file_of_a_fault_may_have_a_long_reason(tmp_path: Path) -> None:
    tree = make_devices(tmp_path / "tree", cuda=1, real=False)
    (tmp_path / "cuda-0.fault").write_text(f'{{"reason": "{"x" * 3000}"}}')
    assert len(GpuWatch(tree, locks=tmp_path).report()[0].fault) == 160
