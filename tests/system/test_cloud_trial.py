"""`lading cloud test` with VMs that boot, or do not: namespaces by the loopback driver, and EC2's
protocol.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from lading.dispatch.fleets.cloud.drivers.namespace_machines import Network
from tests.reality import need_program, need_root
from tests.system.cluster import LADING
from tests.system.ec2 import IMAGE, Ec2, running_ec2

pytestmark = pytest.mark.system
PATIENCE = 300.0
TYPES = {
    "small": {
        "ProviderType": "t3.small",
        "VCPUs": 1,
        "RAM": "1GiB",
        "IncludedScratch": "10GiB",
        "Price": 0.1,
    },
    "large": {"ProviderType": "t3.large", "VCPUs": 2, "RAM": "2GiB", "Price": 0.2},
}
NO_PYTHON = (
    "printf '#!/bin/sh\\nexit 127\\n' >/run/none; chmod +x /run/none; "
    "mount --bind /run/none $(readlink -f /usr/bin/python3)"
)


@pytest.fixture
def networks() -> Iterator[list[Network]]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    number = 10 + os.getpid() % 90
    made = [Network(f"ldt{number}x{one}", f"10.{number}.{7 + one}.0/24") for one in range(3)]
    yield made
    for network in made:
        network.down()


def written(path: Path, network: Network, **settings: Any) -> Path:
    told = {
        "Driver": "loopback",
        "DriverParameters": {"Bridge": network.name, "Subnet": network.subnet},
        "BootProbeCommand": "true", "TimeoutShutdown": "2s", **settings,
    }  # fmt: skip
    path.write_text(yaml.safe_dump({"InstanceTypes": TYPES, "Containers": {"CloudVMs": told}}))
    return path


def test(config: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    command = [
        LADING,
        "cloud",
        "test",
        "--config",
        str(config),
        "--json",
        "--set-id",
        config.stem,
        *arguments,
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            told, said = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            # It then removes its VMs; killed, it would leave them.
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE)
            raise
    assert told, said
    return process.returncode, json.loads(told)


test.__test__ = False  # type: ignore[attr-defined]


def failed(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["name"], one["found"]) for one in told["steps"] if not one["ok"]]


@pytest.mark.quick
def test_vms_of_this_machine_pass(tmp_path: Path, networks: list[Network]) -> None:
    code, told = test(
        written(tmp_path / "c.yml", networks[0]), "--type", "small", "--command", "echo hello"
    )
    assert failed(told) == []
    assert (code, told["ok"]) == (0, True)
    found = {one["name"]: one["found"] for one in told["steps"]}
    assert list(found) == [
        "list", "create", "listed", "ssh", "secret", "boot probe", "software", "runner", "agent",
        "container", "command", "api", "request", "shell", "port", "tags", "destroy",
        "nothing left",
    ]  # fmt: skip
    assert found["container"] == "crun: a container ran as process 1"
    assert found["command"] == "hello"
    assert "Python 3" in found["software"]
    assert found["api"].startswith(f"the VM reaches https://{networks[0].host}:")
    assert found["request"].endswith(" runs on the VM")
    assert (
        found["shell"]
        == "a session was opened through the server, and a command ran in the container"
    )
    assert found["port"] == "port 8000 of the container answered through the server"


def test_a_type_that_can_hold_no_container_is_said(tmp_path: Path, networks: list[Network]) -> None:
    code, told = test(written(tmp_path / "c.yml", networks[0]), "--type", "large")
    ((name, said),) = failed(told)
    assert (code, name) == (1, "request")
    assert "No instance type can hold it" in said
    assert "it has too little of: scratch disk" in said


def test_a_server_that_vms_do_not_reach_is_said(tmp_path: Path, networks: list[Network]) -> None:
    config = written(tmp_path / "c.yml", networks[0])
    code, told = test(config, "--type", "small", "--listen", "127.0.0.1:0")
    ((name, said),) = failed(told)
    assert (code, name) == (1, "api")
    assert re.match(r"the VM does not reach https://127.0.0.1:\d+: .*Connection refused", said)
    code, told = test(config, "--type", "small", "--no-server")
    assert code == 0
    assert "api" not in [one["name"] for one in told["steps"]]


LACKS: dict[str, tuple[dict[str, Any], str]] = {
    "ssh": ({"DeployPublicKey": False}, "ssh does not let root in with the key"),
    "software": ({"InstanceInitCommand": NO_PYTHON}, "there is no python3 on the instance"),
    "boot probe": ({"BootProbeCommand": "false"}, "'false' ended with 1"),
}


async def test_what_a_vm_lacks_is_said(tmp_path: Path, networks: list[Network]) -> None:
    configs = [
        written(tmp_path / f"{network.name}.yml", network, TimeoutBooting="6s", **settings)
        for network, (settings, _) in zip(networks, LACKS.values(), strict=True)
    ]
    found = await asyncio.gather(*(asyncio.to_thread(test, config) for config in configs))
    for (step, (_, said)), (code, told) in zip(LACKS.items(), found, strict=True):
        assert (code, [name for name, _ in failed(told)]) == (1, [step]), told
        assert said in failed(told)[0][1]
        assert told["steps"][-1]["found"] == "the cloud lists no instance of this test"


@pytest.fixture
def ec2(tmp_path: Path) -> Iterator[Ec2]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    with running_ec2(tmp_path / "vms", number=100 + os.getpid() % 100) as made:
        yield made


def of_ec2(path: Path, ec2: Ec2, **settings: Any) -> Path:
    told = {
        "Driver": "ec2", "DriverParameters": ec2.parameters, "ImageID": IMAGE,
        "BootProbeCommand": "true", "TimeoutShutdown": "2s", **settings,
    }  # fmt: skip
    path.write_text(yaml.safe_dump({"InstanceTypes": TYPES, "Containers": {"CloudVMs": told}}))
    return path


@pytest.mark.long
async def test_vms_of_ec2_pass_unless_they_never_boot_or_the_test_is_interrupted(
    tmp_path: Path, ec2: Ec2
) -> None:
    code, told = await asyncio.to_thread(
        test, of_ec2(tmp_path / "c.yml", ec2), "--type", "all", "--no-server"
    )
    assert failed(told) == []
    assert (code, {one["type"] for one in told["steps"]}) == (0, {"", "small", "large"})
    assert ec2.running() == {}
    ec2.frozen = True
    code, told = await asyncio.to_thread(test, of_ec2(tmp_path / "c.yml", ec2, TimeoutBooting="4s"))
    assert [name for name, _ in failed(told)] == ["ssh"]
    assert ec2.running() == {}
    command = [
        LADING,
        "cloud",
        "test",
        "--config",
        str(tmp_path / "c.yml"),
        "--set-id",
        "interrupted",
    ]
    (tmp_path / "c.yml").write_text((tmp_path / "c.yml").read_text().replace("4s", "400s"))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not await asyncio.to_thread(ec2.running):
        await asyncio.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, _ = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 130, out
    assert "The test was interrupted; its VMs are removed." in out
    assert ec2.running() == {}


@pytest.mark.quick
def test_instances_that_an_earlier_ec2_left_are_not_started(tmp_path: Path) -> None:
    need_root()
    need_program("ip")
    number = 100 + os.getpid() % 100
    with running_ec2(tmp_path / "first", number=number) as first:
        first.frozen = True
        first.client.run_instances(
            ImageId=IMAGE, MinCount=1, MaxCount=1, SubnetId=first.subnet, InstanceType="t3.small"
        )
        assert len(first.running()) == 1
    with running_ec2(tmp_path / "second", number=number) as second:
        assert second.running() == {}
