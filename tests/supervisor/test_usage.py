from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor.cgroup import Hierarchy
from lading.supervisor.logs import Log
from lading.supervisor.usage import (
    Folders,
    Usage,
    find_folders,
    read_cpu,
    read_disks,
    read_memory,
    read_network,
    read_peak,
    read_space,
)
from tests.supervisor.supervised import MOMENT, STAMP

CPUS = float(len(os.sched_getaffinity(0)))
V1 = {
    "memory.stat": "cache 1\nrss 2\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\ntotal_pgmajfault 40\n",
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


def folders(directory: Path, version: int, files: dict[str, str]) -> Folders:
    for name, text in files.items():
        (directory / name).write_text(text)
    names = ("memory", "cpu", "cpuacct", "blkio") if version == 1 else ("memory", "cpu", "io")
    return Folders(version, dict.fromkeys(names, directory))


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
    found = Folders(version, {"pids": Path("/none")})
    assert (read_memory(found), read_cpu(found), read_disks(found), read_peak(found)) == ({}, {}, {}, 0)


def processes(proc: Path, **groups: str) -> None:
    for pid, text in groups.items():
        folder = proc / pid.strip("_")
        (folder / "ns").mkdir(parents=True)
        (folder / "net").mkdir()
        (folder / "cgroup").write_text(text)
        (folder / "ns" / "net").symlink_to("net:[2]" if pid != "self" else "net:[1]")
        (folder / "net" / "dev").write_text("a\nb\n lo: 1 0 0 0 0 0 0 0 1 0\neth0: 5 0 0 0 0 0 0 0 6 0\n")


@pytest.mark.parametrize(
    ("version", "theirs", "ours", "expected"),
    [
        (1, "3:memory:/m/x\n2:cpu,cpuacct:/c/x\n", "3:memory:/m\n2:cpu,cpuacct:/\n", {"memory": "m/x", "cpu": "c/x"}),
        (1, "3:memory:/m\n2:cpu,cpuacct:/c/x\n", "3:memory:/m\n2:cpu,cpuacct:/\n", {"cpu": "c/x"}),
        (1, "3:memory:/m\n", "3:memory:/m\n", None),
        (2, "0::/x\n", "0::/\n", {"memory": "x", "cpu": "x"}),
    ],
)
def test_where_a_process_is(
    tmp_path: Path, version: int, theirs: str, ours: str, expected: dict[str, str] | None
) -> None:
    processes(tmp_path, _5=theirs, self=ours)
    found = find_folders(5, Hierarchy(version, dict.fromkeys(("memory", "cpu"), tmp_path)), proc=tmp_path)
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
    found = Folders(1, {"pids": tmp_path})
    assert read_network(found, proc=tmp_path) == {"eth0": {"tx": 6, "rx": 5}}
    (tmp_path / "cgroup.procs").write_text("5\n7\n")
    assert read_network(found, proc=tmp_path) == {}


def test_space(tmp_path: Path) -> None:
    found = read_space(tmp_path)
    assert 0 < found["available"] <= found["total"]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    log = Log(tmp_path / "log", lambda: MOMENT)
    yield log
    log.close()


def usage(log: Log, tmp_path: Path, *, ram: int = 1000) -> Usage:
    times = iter(range(100))
    made = Usage(log, tmp_path, ram, lambda: float(next(times)))
    made.folders = folders(tmp_path, 1, V1)
    return made


def test_reports_have_what_was_added(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    sampled.report()
    (tmp_path / "cpuacct.stat").write_text("user 250\nsystem 50\n")
    sampled.report()
    lines = (log.directory / "crunchstat.txt").read_text().splitlines()
    assert lines[0] == f"{STAMP} mem 10 cache 30 swap 40 pgmajfault 20 rss"
    cpu = [line for line in lines if " cpu " in line]
    assert cpu[1].endswith("2.5 user 0.5 sys 1 cpus -- interval 1.0000 seconds 1 user 0 sys")
    assert any(" blkio:8:0 9 write 7 read -- interval" in line for line in lines)


def test_memory_is_warned_about_once_for_each_threshold(log: Log, tmp_path: Path) -> None:
    sampled = usage(log, tmp_path)
    for rss in (899, 900, 920, 999, 1000):
        (tmp_path / "memory.stat").write_text(f"total_rss {rss}\n")
        sampled.watch_memory()
    said = (log.directory / "crunch-run.txt").read_text()
    assert [line.split("passed ")[1].split(" %")[0] for line in said.splitlines()] == ["90", "99"]


def test_maxima_at_the_end(log: Log, tmp_path: Path) -> None:
    usage(log, tmp_path, ram=40).finish()
    said = (log.directory / "crunch-run.txt").read_text()
    assert "most memory: 20 bytes rss (50 % of what was asked for)" in said
    assert "cpu time: 2.00 s" in said


def test_nothing_is_said_of_what_was_never_seen(log: Log, tmp_path: Path) -> None:
    never = Usage(log, tmp_path, 0, lambda: 0.0)
    for act in (never.report, never.watch_memory, never.finish):
        act()
    assert list(log.directory.iterdir()) == []


async def test_sampling_goes_on_until_cancelled(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = folders(tmp_path, 1, V1)
    answers = iter((None, found))
    monkeypatch.setattr("lading.supervisor.usage.find_folders", lambda pid, hierarchy: next(answers))
    monkeypatch.setattr("lading.supervisor.usage._LOOK", 0.0)
    pids = iter((None, 5, 5))
    times = iter(range(100))
    sampled = Usage(log, tmp_path, 10, lambda: float(next(times)))
    task = asyncio.create_task(sampled.run(lambda: next(pids), interval=0.0, mounts=""))
    await log.grown.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert sampled.folders is found
