"""Samples of the memory of a container, on a /proc of files."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from lading.supervisor.limits.memory_samples import ContainerMemory, MemoryLimit

FIRST = 4711


class Machine:
    """A /proc whose process `FIRST` is the first one of a container."""

    def __init__(self, place: Path) -> None:
        self.proc = place
        self.inner = place / str(FIRST) / "root" / "proc"
        (self.inner.parent / "dev/shm").mkdir(parents=True)
        self.inner.mkdir()

    def add(self, pid: int, *, anon: int, shmem: int = 0, own: int = 0, shared: int = 0) -> None:
        """Add a process of the container; kibibytes. `own` and `shared` are its part alone."""
        place = self.inner / str(pid)
        place.mkdir()
        (place / "status").write_text(
            f"Name:\tx:y\nRssAnon:\t{anon} kB\nRssFile:\t9999 kB\nRssShmem:\t{shmem} kB\n"
        )
        (place / "smaps_rollup").write_text(
            f"55 ---p [rollup]\nPss_Anon: {own} kB\nPss_File: 9999 kB\nPss_Shmem: {shared} kB\n"
            "SwapPss: 1 kB\n"
        )


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def sample(machine: Machine, limit: int) -> int:
    with ContainerMemory(FIRST, proc=machine.proc) as memory:
        # A disk is no file system in memory: its use is not that of /dev/shm.
        (machine.inner.parent / "dev/shm").rmdir()
        assert memory.open()
        return memory.sample(limit)


def test_below_the_limit_the_sum_suffices(machine: Machine) -> None:
    machine.add(1, anon=100, shmem=20)
    machine.add(7, anon=100)
    (machine.inner / "meminfo").touch()
    assert sample(machine, 220 << 10) == 220 << 10


def test_above_it_shared_pages_count_once(machine: Machine) -> None:
    machine.add(1, anon=1000, shmem=20, own=500, shared=10)
    machine.add(7, anon=1000, own=500, shared=10)
    assert sample(machine, 64 << 10) == (500 + 500 + 2 + 20) << 10


def test_the_machine_s_own_processes_are_not_a_container_s(machine: Machine) -> None:
    machine.add(1, anon=100)
    # /proc/self names a process only in its own namespace and those above.
    (machine.inner / "self").symlink_to("1")
    with ContainerMemory(FIRST, proc=machine.proc) as memory:
        assert not memory.open()
        (machine.inner / "self").unlink()
        assert memory.open()


def test_a_root_without_proc_is_looked_at_again(machine: Machine) -> None:
    machine.inner.rmdir()
    with ContainerMemory(FIRST, proc=machine.proc) as memory:
        assert not memory.open()


async def test_a_container_with_more_is_ended_once(machine: Machine) -> None:
    (machine.inner.parent / "dev/shm").rmdir()
    machine.add(1, anon=100, own=99)
    ended: list[int] = []
    known = iter((None, FIRST))
    limit = MemoryLimit(90 << 10, lambda: next(known), ended.append, proc=machine.proc)
    await asyncio.wait_for(limit.run(), 10)
    assert (ended, limit.excess) == ([FIRST], 100 << 10)


async def test_a_container_that_has_ended_needs_no_sample(machine: Machine) -> None:
    ended: list[int] = []
    limit = MemoryLimit(1, lambda: FIRST + 1, ended.append, proc=machine.proc)
    await asyncio.wait_for(limit.run(), 10)
    assert (ended, limit.excess) == ([], 0)
