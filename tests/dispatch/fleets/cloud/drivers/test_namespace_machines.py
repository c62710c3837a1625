from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import asyncssh
import pytest

from lading.core.errors import Unavailable
from lading.dispatch.fleets.cloud.drivers.namespace_machines import (
    Machines,
    NamespaceMachine,
    Network,
)
from tests.reality import need_program, need_root

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGx4dGVzdGtleXRlc3RrZXl0ZXN0a2V5dGVzdGtleXQx"


def test_addresses_begin_after_that_of_this_machine() -> None:
    network = Network("lo", "10.9.0.0/16")
    assert (network.host, next(network.addresses()), network.mask) == ("10.9.0.1", "10.9.0.2", 16)


def test_a_machine_lives_as_long_as_its_keeper() -> None:
    assert not NamespaceMachine(id="vm", address="10.9.0.2", pid=0).alive
    assert not NamespaceMachine(id="vm", address="10.9.0.2", pid=os.getpid(), began="1").alive


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[Machines]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter"):
        need_program(program)
    number = os.getpid() % 200
    made = Machines(tmp_path / "vms", Network(f"ldn{number}", f"10.{number + 20}.{number}.0/24"))
    yield made
    for one in made.list():
        made.stop(one.id)
    made.network.down()


async def test_a_machine_boots_and_leaves_nothing(machines: Machines) -> None:
    key = asyncssh.generate_private_key("ssh-ed25519")
    public = key.export_public_key().decode().strip()
    machines.start("vm-1", key=public, user_data="echo $(hostname) >/run/hello", notes={"a": "b"})
    (one,) = machines.list()
    assert (one.id, one.notes, one.alive) == ("vm-1", {"a": "b"}, True)
    said = ""
    while not said.strip():
        said = await _ask(one.address, key, "cat /run/hello; touch /etc/x 2>&1; touch /var/lib/y")
    assert said.startswith("vm-1\n")
    assert "Read-only file system" in said
    assert (machines.root / "vm-1/disk/y").exists()
    assert "Server listening on" in machines.console("vm-1")
    machines.note("vm-1", {"c": "d"})
    machines.note("vm-2", {"c": "d"})
    assert machines.list()[0].notes == {"c": "d"}
    machines.stop("vm-1")
    machines.stop("vm-1")
    assert (machines.list(), machines.console("vm-1")) == ([], "")
    assert list(machines.root.iterdir()) == []
    assert not one.alive
    assert not list(Path("/sys/fs/cgroup").glob("*/lading-vm-*/vm-1"))


async def _ask(address: str, key: asyncssh.SSHKey, command: str) -> str:
    try:
        async with asyncssh.connect(
            address,
            username="root",
            client_keys=[key],
            known_hosts=None,
            config=None,
            agent_path=None,
        ) as connection:
            return str((await connection.run(command)).stdout)
    except (OSError, asyncssh.Error):
        return ""


def test_what_an_end_of_the_keeper_left_is_removed(machines: Machines) -> None:
    first = machines.start("vm-1", key=KEY)
    second = machines.start("vm-2", key=KEY)
    assert first.address != second.address
    os.kill(first.pid, 9)
    os.waitpid(first.pid, 0)
    assert [one.id for one in machines.list()] == ["vm-2"]
    assert not (machines.root / "vm-1").exists()


def test_what_cannot_be_made_is_said_and_undone(machines: Machines) -> None:
    with pytest.raises(Unavailable, match="ip -n"):
        machines.start("vm-1", key=KEY, address="999.1.1.1")
    assert list(machines.root.iterdir()) == []
    assert (
        subprocess.run(["ip", "netns"], capture_output=True, check=True).stdout.count(b"vm-1") == 0
    )
