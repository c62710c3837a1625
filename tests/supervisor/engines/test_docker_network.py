from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lading.core.errors import ExecutionError
from lading.supervisor.engines import Reach
from lading.supervisor.engines.docker_network import DockerNetwork, make_config, waiting_program


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


async def test_the_name_of_what_is_joined(tmp_path: Path) -> None:
    network = DockerNetwork("x-network", Reach(), tmp_path)
    assert network.mode == "container:x-network"
    assert [bind.target for bind in network.binds()] == ["/etc/hosts", "/etc/resolv.conf"]
    await network.close()
