"""Capacity: the machine within its cgroup, in either version."""

from __future__ import annotations

from pathlib import Path

import pytest

from lading.core.resources import GIB, UNLIMITED, Resources
from lading.dispatch.capacity import measure, memory_of_others


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write(tmp_path, "proc/meminfo", f"MemFree: 1 kB\nMemTotal: {16 * GIB // 1024} kB\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def test_the_bare_machine(root: Path) -> None:
    assert measure(root=root, processors=8) == Resources(8, 16 * GIB, UNLIMITED)


def test_configuration_wins(root: Path) -> None:
    assert measure(vcpus=3, ram=5, root=root) == Resources(3, 5, UNLIMITED)


def test_version_2_limits_of_any_ancestor(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/slice/service\n")
    write(root, "sys/fs/cgroup/slice/memory.max", f"{4 * GIB}\n")
    write(root, "sys/fs/cgroup/slice/service/memory.max", "max\n")
    write(root, "sys/fs/cgroup/slice/service/cpu.max", "350000 100000\n")
    assert measure(root=root, processors=8) == Resources(3, 4 * GIB, UNLIMITED)


def test_version_1_limits(root: Path) -> None:
    write(root, "proc/self/cgroup", "4:memory:/job\n2:cpu,cpuacct:/job\n1:name=systemd:/\n0::/\n")
    write(root, "sys/fs/cgroup/memory/job/memory.limit_in_bytes", f"{2 * GIB}")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712")
    write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "200000")
    write(root, "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    assert measure(root=root, processors=8) == Resources(2, 2 * GIB, UNLIMITED)


@pytest.mark.parametrize(
    ("quota", "vcpus"), [("max 100000", 8), ("50000 100000", 1), ("nonsense", 8)]
)
def test_quotas(root: Path, quota: str, vcpus: int) -> None:
    write(root, "proc/self/cgroup", "0::/\n")
    write(root, "sys/fs/cgroup/cpu.max", quota)
    assert measure(root=root, processors=8).vcpus == vcpus


def test_no_quota_in_version_1(root: Path) -> None:
    write(root, "proc/self/cgroup", "2:cpu:/\n")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1")
    write(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")
    assert measure(root=root, processors=8).vcpus == 8


def test_a_machine_that_does_not_tell_its_memory_offers_none(root: Path) -> None:
    write(root, "proc/meminfo", "")
    assert measure(root=root, processors=1).ram == 0


def test_this_machine() -> None:
    assert Resources(1, 1).fits(measure())


def test_what_is_given_is_taken_as_it_is(tmp_path: Path) -> None:
    assert measure(vcpus=1, ram=1, disk=5, gpu_count=2, root=tmp_path) == Resources(1, 1, 5, 2)


def test_memory_that_others_use(root: Path) -> None:
    write(root, "proc/meminfo", f"MemTotal: {16 << 20} kB\nMemAvailable: {10 << 20} kB\n")
    # Without a control group of the containers all that they have reserved is theirs.
    assert memory_of_others(reserved=0, root=root) == 6 * GIB
    assert memory_of_others(reserved=2 * GIB, root=root) == 4 * GIB
    assert memory_of_others(reserved=8 * GIB, root=root) == 0
    stat = f"anon {GIB}\nfile {4 * GIB}\nshmem {GIB - 1}\n"
    write(root, "sys/fs/cgroup/lading/memory.stat", stat)
    # In steps, so that small changes change no plan.
    assert memory_of_others(reserved=8 * GIB, root=root) == 4 * GIB + (64 << 20)
    (root / "sys/fs/cgroup/lading/memory.stat").unlink()
    write(root, "sys/fs/cgroup/memory/lading/memory.stat", f"cache 5\ntotal_rss {3 * GIB}\n")
    assert memory_of_others(reserved=0, root=root) == 3 * GIB
    write(root, "proc/meminfo", f"MemTotal: {16 << 20} kB\n")
    assert memory_of_others(reserved=0, root=root) == 0
