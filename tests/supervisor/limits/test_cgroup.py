from __future__ import annotations

import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.supervisor.limits.cgroup import LEAST_RAM, Cgroup, Hierarchy, find_hierarchy, read_text
from tests.reality import need

V1 = "".join(
    f"cgroup {{0}}/{at} cgroup rw,{names} 0 0\n"
    for at, names in (("cpu", "cpu,cpuacct"), ("memory", "memory"), ("pids", "pids"))
)
SYSTEMD = "cgroup {0}/systemd cgroup rw,name=systemd 0 0\n"
V2 = "cgroup2 {0}/unified cgroup2 rw 0 0\n"
ROOT = find_hierarchy(Path("/proc/mounts").read_text())


def test_version_1_hybrid_included(tmp_path: Path) -> None:
    found = find_hierarchy((V1 + SYSTEMD + V2).format(tmp_path))
    assert found.version == 1
    assert set(found.roots) == {"cpu", "cpuacct", "memory", "pids"}
    assert found.roots["cpu"] == found.roots["cpuacct"]


def test_version_2(tmp_path: Path) -> None:
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified" / "cgroup.controllers").write_text("cpuset cpu io memory pids rdma\n")
    found = find_hierarchy(V2.format(tmp_path))
    assert (found.version, set(found.roots)) == (2, {"cpu", "io", "memory", "pids"})


@pytest.mark.parametrize("mounts", ["", "proc /proc proc rw 0 0\n", V2.format("/none")])
def test_no_cgroups(mounts: str) -> None:
    hierarchy = find_hierarchy(mounts)
    assert (hierarchy.version, dict(hierarchy.roots)) == (2, {})
    group = Cgroup(hierarchy, "x")
    assert (group.make(ram=5, vcpus=1, processes=1), group.enforced) == ([], frozenset())
    assert (group.join_files, group.processes(), group.out_of_memory_kills(), group.remove()) == (
        [],
        set(),
        0,
        [],
    )


def test_limits_of_version_2(tmp_path: Path) -> None:
    (tmp_path / "lading" / "x").mkdir(parents=True)
    (tmp_path / "lading" / "x" / "memory.swap.max").touch()
    group = Cgroup(Hierarchy(2, dict.fromkeys(("cpu", "memory", "pids"), tmp_path)), "x")
    assert group.make(ram=1, vcpus=2, processes=3) == []
    assert group.enforced == {"memory", "cpu", "pids"}
    folder = tmp_path / "lading" / "x"
    assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert (folder / "memory.max").read_text() == str(LEAST_RAM)
    assert (folder / "memory.swap.max").read_text() == "0"
    assert (folder / "cpu.max").read_text() == "200000 100000"
    assert group.join_files == [str(folder / "cgroup.procs")]
    (folder / "memory.events").write_text("low 0\noom 1\noom_kill 2\n")
    assert group.out_of_memory_kills() == 2
    assert ((folder / "pids.max").read_text(), group.refused_processes()) == ("3", 0)
    (folder / "pids.events").write_text("max 4\n")
    assert group.refused_processes() == 4


def test_what_cannot_be_made_is_said_and_left_out(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "lading").write_text("in the way")
    (tmp_path / "pids" / "lading" / "x" / "pids.max").mkdir(parents=True)
    roots = {"memory": tmp_path / "memory", "pids": tmp_path / "pids"}
    group = Cgroup(Hierarchy(1, roots), "x")
    notes = group.make(ram=1, processes=1)
    assert len(notes) == 2
    assert "cannot be made" in notes[0]
    assert "cannot be set" in notes[1]
    assert group.enforced == frozenset()
    assert group.join_files == [str(tmp_path / "pids" / "lading" / "x" / "tasks")]


@pytest.fixture
def group() -> Iterator[Cgroup]:
    group = Cgroup(ROOT, f"test-{uuid.uuid4()}")
    yield group
    assert group.remove() == []


@pytest.mark.usefixtures("as_root")
def test_a_real_group_holds_limits_and_processes(group: Cgroup) -> None:
    need(bool(ROOT.roots), "a cgroup hierarchy")
    group.make(ram=64 << 20, vcpus=1)
    joined = " ".join(f"echo 0 > {file};" for file in group.join_files)
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{joined} echo in; exec sleep 1000"], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"in\n"
        assert group.processes() == {process.pid}
        assert group.remove() == []
        assert process.wait() == -9
    assert not any(Path(file).exists() for file in group.join_files)
    assert group.out_of_memory_kills() == 0


@pytest.mark.usefixtures("as_root")
def test_a_thread_joins_without_the_rest_of_its_process(group: Cgroup) -> None:
    need(bool(ROOT.roots) and group.takes_threads, "cgroups of version 1")
    group.make()
    started: list[subprocess.Popen[bytes]] = []

    def join() -> None:
        group.join()
        started.append(subprocess.Popen(["cat"], stdin=subprocess.PIPE))

    thread = threading.Thread(target=join)
    thread.start()
    thread.join()
    with started[0] as child:
        assert group.processes() == {child.pid}
        assert not group.remove_empty()
        child.communicate()
    assert group.remove_empty()
    assert group.remove_empty()


def test_a_group_that_was_removed_can_be_made_again(tmp_path: Path) -> None:
    group = Cgroup(Hierarchy(1, {"pids": tmp_path}), "x")
    for _ in range(2):
        group.make()
        folder = tmp_path / "lading" / "x"
        (folder / "child").mkdir()
        assert not group.remove_empty()
        (folder / "child").rmdir()
        assert group.remove_empty()
        assert not folder.exists()
    assert group.remove_empty()


def test_files_of_the_kernel_are_read_whole(tmp_path: Path) -> None:
    text = "".join(f"{number}\n" for number in range(50_000))
    (tmp_path / "cgroup.procs").write_text(text)
    assert read_text(tmp_path / "cgroup.procs") == text
    (tmp_path / "stat").write_bytes(b"1 (\xff) S")
    assert read_text(tmp_path / "stat") == "1 (\ufffd) S"
    assert read_text(tmp_path / "none") == read_text(tmp_path) == ""
