from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator

import pytest

from lading.supervisor.limits.cgroup import Cgroup, find_hierarchy
from lading.supervisor.limits.counters import LimitEvents, events_at_end
from lading.supervisor.machine import mount_table
from tests.reality import need, need_root


@pytest.fixture
def group() -> Iterator[Cgroup]:
    need_root()
    made = Cgroup(find_hierarchy(mount_table()), f"limit-events-{os.getpid()}")
    need(made.make(ram=16 << 20, processes=8) == [], "memory cgroups")
    yield made
    made.remove()


async def events_of(script: str, group: Cgroup) -> LimitEvents:
    """What is counted for a shell that runs this in the group."""
    join = "".join(f"echo 0 >{file}; " for file in group.join_files)
    command = ["/bin/sh", "-c", f"{join} echo joined; read go; {script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        counting = asyncio.create_task(events_at_end(process.pid))
        await asyncio.sleep(0)
        process.stdin.write(b"go\n")
        process.stdin.close()
        return await counting


async def test_kills_for_lack_of_memory_are_counted(group: Cgroup) -> None:
    assert await events_of(
        "exec dd if=/dev/zero of=/dev/null bs=64M count=1", group
    ) == LimitEvents(kills=1)


async def test_an_end_of_another_kind_counts_none(group: Cgroup) -> None:
    assert await events_of("kill -9 $$", group) == LimitEvents()


async def test_processes_above_the_limit_are_counted(group: Cgroup) -> None:
    loop = "i=0; while [ $i -lt 20 ]; do (sleep 9) & i=$((i+1)); done"
    found = await events_of(f"{{ {loop}; }} 2>/dev/null", group)
    group.remove()
    assert found.refused > 0


async def test_a_process_that_has_gone_had_no_kills() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert await events_at_end(process.pid) == LimitEvents()
