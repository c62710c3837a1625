from __future__ import annotations

import os
from pathlib import Path

import pytest

from lading.supervisor.limits.cgroup import Hierarchy
from lading.supervisor.limits.counters import (
    CgroupCounters,
    descendants,
    find_folders,
    own_folders,
    read_cpu,
    read_disks,
    read_interfaces,
    read_memory,
    read_network,
    read_peak,
    read_processes,
    read_rss,
    read_space,
)

CPUS = float(len(os.sched_getaffinity(0)))
V1 = {
    "memory.stat": (
        "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\ntotal_pgmajfault 40\n"
    ),
    "memory.max_usage_in_bytes": "99\n",
    "cpuacct.stat": "user 150\nsystem 50\n",
    "cpu.cfs_quota_us": "100000\n",
    "blkio.throttle.io_service_bytes": "8:0 Read 7\n8:0 Write 9\n8:0 Sync 1\nTotal 16\n",
}
V2 = {
    "memory.stat": "anon 5\npgmajfault 4\n",
    "memory.current": "60\n",
    "memory.swap.current": "7\n",
    "memory.peak": "88\n",
    "cpu.stat": "usage_usec 3\nuser_usec 1500000\nsystem_usec 500000\n",
    "cpu.max": "max 100000\n",
    "io.stat": "8:0 rbytes=7 wbytes=9 rios=1 odd\n",
}


def folders(directory: Path, version: int, files: dict[str, str]) -> CgroupCounters:
    for name, text in files.items():
        (directory / name).write_text(text)
    names = ("memory", "cpu", "cpuacct", "blkio") if version == 1 else ("memory", "cpu", "io")
    return CgroupCounters(version, dict.fromkeys(names, directory))


def test_counters_of_version_1(tmp_path: Path) -> None:
    found = folders(tmp_path, 1, V1)
    assert read_memory(found) == {"cache": 10, "swap": 30, "pgmajfault": 40, "rss": 20}
    assert read_cpu(found) == {"user": 1.5, "sys": 0.5, "cpus": 1.0}
    assert read_disks(found) == {"8:0": {"write": 9, "read": 7}}
    assert read_peak(found) == 99


def test_counters_of_version_2(tmp_path: Path) -> None:
    found = folders(tmp_path, 2, V2)
    assert read_memory(found) == {"swap": 7, "pgmajfault": 4, "rss": 60}
    assert read_cpu(found) == {"user": 1.5, "sys": 0.5, "cpus": CPUS}
    assert read_disks(found) == {"8:0": {"write": 9, "read": 7}}
    assert read_peak(found) == 88


def test_a_quota_of_version_2(tmp_path: Path) -> None:
    assert read_cpu(folders(tmp_path, 2, {**V2, "cpu.max": "50000 100000\n"}))["cpus"] == 0.5


@pytest.mark.parametrize("version", [1, 2])
def test_counters_that_are_not_there(version: int) -> None:
    found = CgroupCounters(version, {"pids": Path("/none")})
    assert (read_memory(found), read_cpu(found), read_disks(found), read_peak(found)) == (
        {},
        {},
        {},
        0,
    )


def processes(proc: Path, **groups: str) -> None:
    for pid, text in groups.items():
        folder = proc / pid.strip("_")
        (folder / "ns").mkdir(parents=True)
        (folder / "net").mkdir()
        (folder / "cgroup").write_text(text)
        (folder / "ns" / "net").symlink_to("net:[2]" if pid != "self" else "net:[1]")
        (folder / "net" / "dev").write_text(
            "a\nb\n lo: 1 0 0 0 0 0 0 0 1 0\neth0: 5 0 0 0 0 0 0 0 6 0\n"
        )


@pytest.mark.parametrize(
    ("version", "theirs", "ours", "expected"),
    [
        (
            1,
            "3:memory:/m/x\n2:cpu,cpuacct:/c/x\n",
            "3:memory:/m\n2:cpu,cpuacct:/\n",
            {"memory": "m/x", "cpu": "c/x"},
        ),
        (1, "3:memory:/m\n2:cpu,cpuacct:/c/x\n", "3:memory:/m\n2:cpu,cpuacct:/\n", {"cpu": "c/x"}),
        (1, "3:memory:/m\n", "3:memory:/m\n", None),
        (2, "0::/x\n", "0::/\n", {"memory": "x", "cpu": "x"}),
    ],
)
def test_where_a_process_is(
    tmp_path: Path, version: int, theirs: str, ours: str, expected: dict[str, str] | None
) -> None:
    processes(tmp_path, _5=theirs, self=ours)
    found = find_folders(
        5, Hierarchy(version, dict.fromkeys(("memory", "cpu"), tmp_path)), proc=tmp_path
    )
    if expected is None:
        assert found is None
    else:
        assert found is not None
        assert found.paths == {name: tmp_path / path for name, path in expected.items()}


def test_a_process_that_is_gone(tmp_path: Path) -> None:
    assert find_folders(5, Hierarchy(1, {}), proc=tmp_path) is None


def test_the_network_as_the_container_sees_it(tmp_path: Path) -> None:
    processes(tmp_path, _5="", _6="", self="")
    (tmp_path / "5" / "ns" / "net").unlink()
    (tmp_path / "5" / "ns" / "net").symlink_to("net:[1]")
    (tmp_path / "cgroup.procs").write_text("5\n6\n")
    found = CgroupCounters(1, {"pids": tmp_path})
    assert read_network(found, proc=tmp_path) == {"eth0": {"tx": 6, "rx": 5}}
    (tmp_path / "cgroup.procs").write_text("5\n7\n")
    assert read_network(found, proc=tmp_path) == {}


def test_space(tmp_path: Path) -> None:
    found = read_space(tmp_path)
    assert 0 < found["available"] <= found["total"]


def test_groups_that_are_shared_count_for_the_host(tmp_path: Path) -> None:
    processes(tmp_path, self="3:memory:/m\n")
    found = own_folders("self", Hierarchy(1, {"memory": tmp_path, "cpu": tmp_path}), proc=tmp_path)
    assert found == CgroupCounters(1, {"memory": tmp_path / "m"})
    assert own_folders("5", Hierarchy(1, {"memory": tmp_path}), proc=tmp_path) is None
    assert own_folders("self", Hierarchy(1, {}), proc=tmp_path) is None
    assert read_interfaces("self", proc=tmp_path) == {"eth0": {"tx": 6, "rx": 5}}


def test_a_period_of_version_1(tmp_path: Path) -> None:
    period = {"cpu.cfs_quota_us": "25000\n", "cpu.cfs_period_us": "50000\n"}
    assert read_cpu(folders(tmp_path, 1, {**V1, **period}))["cpus"] == 0.5


def test_processes_where_there_are_no_groups(tmp_path: Path) -> None:
    for pid, children in ((5, "6 7 "), (6, ""), (7, "")):
        (tmp_path / str(pid) / "task" / str(pid)).mkdir(parents=True)
        (tmp_path / str(pid) / "task" / str(pid) / "children").write_text(children)
        fields = ["S", *"0" * 8, "3", "0", "100", "50", "20", "10", *"0" * 6, "2", "0"]
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}\n")
    assert descendants(5, proc=tmp_path) == [5, 7, 6]
    memory, cpu = read_processes([5, 7, 8], proc=tmp_path)
    assert memory == {"pgmajfault": 6, "rss": 4 * os.sysconf("SC_PAGE_SIZE")}
    ticks = os.sysconf("SC_CLK_TCK")
    assert cpu == {"user": 240 / ticks, "sys": 120 / ticks, "cpus": CPUS}
    assert read_rss(8, proc=tmp_path) == 0
    assert read_rss(os.getpid()) > 1 << 20


def test_an_ended_process_has_no_folders(tmp_path: Path) -> None:
    for process, where in (("5", "/"), ("self", "/mine")):
        (tmp_path / process).mkdir()
        (tmp_path / process / "cgroup").write_text(f"4:memory:{where}\n")
    hierarchy = Hierarchy(1, {"memory": Path("/sys/fs/cgroup/memory")})
    assert find_folders(5, hierarchy, proc=tmp_path) is None
