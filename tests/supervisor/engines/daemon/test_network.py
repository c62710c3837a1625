from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import NetworkAccess
from lading.supervisor.engines.daemon.network import (
    DockerNetwork,
    make_config,
    waiting_program,
)
from tests.reality import need_root
from tests.supervisor.network.namespaces import other_network


def test_what_waits_does_nothing_else(tmp_path: Path) -> None:
    program = tmp_path / "wait"
    program.write_bytes(waiting_program(os.uname().machine))
    program.chmod(0o755)
    with subprocess.Popen([program]) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
        process.kill()


def test_it_is_there_for_two_kinds_of_machines() -> None:
    assert len(waiting_program("aarch64")) == 64 + 56 + 32
    with pytest.raises(ExecutionError, match="not on riscv64; use the native engine"):
        waiting_program("riscv64")


def test_what_waits_has_no_rights() -> None:
    host = make_config("sha256:0", "/program")["HostConfig"]
    assert (host["NetworkMode"], host["CapDrop"], host["ReadonlyRootfs"]) == ("none", ["ALL"], True)


def test_the_limit_of_processes_leaves_room_for_the_threads_of_the_runtime() -> None:
    host = make_config("sha256:0", "/program")["HostConfig"]
    threads_by_processor = 2
    assert host["PidsLimit"] >= threads_by_processor * (os.cpu_count() or 1) + 32


async def test_the_name_of_what_is_joined(tmp_path: Path) -> None:
    network = DockerNetwork("x-network", NetworkAccess(), tmp_path)
    assert network.mode == "container:x-network"
    assert [bind.target for bind in network.binds()] == ["/etc/hosts", "/etc/resolv.conf"]
    await network.close()


class _Docker:
    """A daemon whose containers have this first process."""

    def __init__(self, pid: int) -> None:
        self.containers, self.pid, self.made = self, pid, ""

    async def create(self, config: dict[str, Any], name: str) -> _Docker:
        assert Path(config["HostConfig"]["Mounts"][0]["Source"]).stat().st_mode & 0o111
        self.made = name
        return self

    async def start(self) -> None:
        """Nothing."""

    async def show(self) -> dict[str, Any]:
        return {"State": {"Pid": self.pid}}


async def test_the_namespace_of_what_waits_is_connected(tmp_path: Path) -> None:
    need_root()
    network = DockerNetwork("x-network", NetworkAccess(api=("127.0.0.1:7",)), tmp_path)
    network.binds()
    with other_network() as pid:
        docker = _Docker(pid)
        await network.open(docker, "sha256:0")  # type: ignore[arg-type]
        assert docker.made == "x-network"
        assert "0100007F:0007" in Path(f"/proc/{pid}/net/tcp").read_text()
        await network.close()
    with pytest.raises(ExecutionError, match="does not run"):
        await network.open(_Docker(0), "sha256:0")  # type: ignore[arg-type]
