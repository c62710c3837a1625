from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError, Failure
from lading.supervisor.cgroup import Cgroup, find_hierarchy
from lading.supervisor.engines import EngineSettings, find_engines
from lading.supervisor.engines.podman import kills_at_end, make_engine
from lading.supervisor.machine import mount_table
from tests.reality import need, need_root


@pytest.fixture
def settings(tmp_path: Path) -> EngineSettings:
    socket = str(tmp_path / "none.sock")
    return EngineSettings(container_uuid="u", run_directory="/r", cache_directory="/c", podman_socket=socket)


async def test_a_service_that_is_not_there(settings: EngineSettings) -> None:
    engine = find_engines().make("podman", settings)
    with pytest.raises(ExecutionError, match="podman cannot be reached: no answer from .*none.sock") as caught:
        await engine.check()
    assert caught.value.failure is Failure.NODE
    with pytest.raises(ExecutionError, match="podman cannot remove"):
        await engine.remove()


def test_it_has_a_socket_of_its_own(settings: EngineSettings) -> None:
    assert make_engine(settings).sees_private_mounts is False


@pytest.fixture
def group() -> Iterator[Cgroup]:
    need_root()
    made = Cgroup(find_hierarchy(mount_table()), "podman-kills")
    need(made.make(ram=16 << 20) == [], "memory cgroups")
    yield made
    made.remove()


async def kills_of(script: str, group: Cgroup) -> int:
    """What is counted for a shell that runs this in the group."""
    join = "".join(f"echo 0 >{file}; " for file in group.join_files)
    command = ["/bin/sh", "-c", f"{join} echo joined; read go; {script}"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        counting = asyncio.create_task(kills_at_end(process.pid))
        await asyncio.sleep(0)
        process.stdin.write(b"go\n")
        process.stdin.close()
        return await counting


async def test_kills_for_lack_of_memory_are_counted(group: Cgroup) -> None:
    assert await kills_of("exec dd if=/dev/zero of=/dev/null bs=64M count=1", group) == 1


async def test_an_end_of_another_kind_counts_none(group: Cgroup) -> None:
    assert await kills_of("kill -9 $$", group) == 0


async def test_a_process_that_has_gone_had_no_kills() -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert await kills_at_end(process.pid) == 0
