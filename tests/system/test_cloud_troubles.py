"""What is wrong with a cloud is said in the log, in `why` and in the metrics, and no VM is left
paid for; spot VMs that are taken away. Real parts: EC2's protocol, VMs with a real sshd, a real
server and dispatcher.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from lading.core.errors import NotFound
from tests.clouds import running
from tests.reality import need_program, need_root
from tests.system.cloud import TYPES, Cloud, running_cloud, until_no_vm
from tests.system.cluster import LADING, free_address
from tests.system.desk import Desk, desk_of

pytestmark = [pytest.mark.system, pytest.mark.long]
NO_PYTHON = (
    "printf '#!/bin/sh\\nexit 127\\n' >/run/none; chmod +x /run/none; "
    "mount --bind /run/none $(readlink -f /usr/bin/python3)"
)
SPOT = TYPES | {"spot": {**TYPES["small"], "Price": 0.05, "Preemptible": True}}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    need_root()
    for program in ("sshd", "ip", "unshare", "nsenter", "crun"):
        need_program(program)
    with running_cloud(tmp_path, types=SPOT, MaxInstances=2) as made:
        yield made


def change(cloud: Cloud, **settings: Any) -> str:
    """Give the next dispatcher other settings; where its metrics are."""
    path, address = cloud.root / "cloud.yml", free_address()
    document = yaml.safe_load(path.read_text())
    document["ManagementToken"] = "hush"
    document["Containers"]["CloudVMs"] |= {"ManagementAddress": address, **settings}
    path.write_text(yaml.safe_dump(document))
    (cloud.root / "dispatcher.log").write_bytes(b"")
    return f"http://{address}/metrics"


async def figure(url: str, name: str) -> float:
    """One figure of the metrics, by the beginning of its line."""
    headers = {"Authorization": "Bearer hush"}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        text = await answer.text()
    found = [line for line in text.splitlines() if re.match(f"arvados_dispatchcloud_{name}", line)]
    return sum(float(line.rpartition(" ")[2]) for line in found)


async def until(condition: Any) -> None:
    while not await condition():
        await asyncio.sleep(0.1)


@asynccontextmanager
async def at_work(cloud: Cloud) -> AsyncIterator[Desk]:
    """A dispatcher, for as long as this goes on."""
    await asyncio.to_thread(cloud.start)
    try:
        async with desk_of(cloud.cluster, limit=120) as desk:
            yield desk
    finally:
        await asyncio.to_thread(cloud.stop)


async def cancel(cloud: Cloud, uuid: str) -> None:
    await asyncio.to_thread(cloud.cluster.lading, "request", "cancel", uuid)


async def test_vms_that_never_become_ready_are_said_and_removed(cloud: Cloud) -> None:
    cases: list[tuple[dict[str, Any], bool, str]] = [
        ({"DeployPublicKey": True, "InstanceInitCommand": ""}, True, "no ssh connection"),
        (
            {"DeployPublicKey": False},
            False,
            "ssh does not let root in with the key of Containers.DispatchPrivateKey",
        ),
        (
            {"DeployPublicKey": True, "InstanceInitCommand": NO_PYTHON},
            False,
            "there is no python3 on the instance",
        ),
    ]
    for settings, frozen, said in cases:
        cloud.ec2.frozen = frozen
        metrics = change(cloud, TimeoutBooting="6s", **settings)
        async with at_work(cloud) as desk:
            uuid = await desk.submit("echo never")
            await desk.until_told(uuid, "it did not become ready within 6 s")
            assert said in (await desk.why(uuid))["scheduling_status"]
            await until_no_vm(cloud)
            assert said in cloud.log()
            assert await figure(metrics, r'boot_outcomes_total{outcome="failure"}') >= 1
            await cancel(cloud, uuid)


async def test_a_cloud_that_cannot_be_reached_is_said(cloud: Cloud) -> None:
    nowhere = cloud.ec2.parameters | {"Endpoint": f"http://{free_address()}"}
    metrics = change(cloud, DriverParameters=nowhere)
    command = [LADING, "dispatch", "--join", str(cloud.root / "join"), "--fleet", "cloud"]
    command += ["--data", str(cloud.root / "d"), "--config", str(cloud.root / "cloud.yml")]
    with (cloud.root / "dispatcher.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        async with desk_of(cloud.cluster, limit=60) as desk:
            uuid = await desk.submit("echo never")
            told = await desk.until_told(uuid, "the instances cannot be listed")
            assert "EC2 cannot be reached" in told
            assert "EC2 cannot be reached" in cloud.log()
            assert (
                await figure(metrics, r'driver_operations_total{error="1",operation="List"}') >= 1
            )
    finally:
        process.terminate()
        process.wait(30)


def test_credentials_that_are_wrong_end_the_dispatcher_with_the_reason(
    cloud: Cloud, tmp_path: Path
) -> None:
    with running("openstack", tmp_path) as other:
        change(cloud, Driver="libcloud", DriverParameters=other.parameters | {"Password": "wrong"})
        command = [LADING, "dispatch", "--join", str(cloud.root / "join"), "--fleet", "cloud"]
        command += ["--data", str(cloud.root / "d"), "--config", str(cloud.root / "cloud.yml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "lading: OpenStack: 401" in done.stderr
    assert "check Containers.CloudVMs (DriverParameters, ImageID)" in done.stderr


async def test_spot_vms_that_are_taken_away_are_not_the_users_failure(cloud: Cloud) -> None:
    change(cloud)
    async with at_work(cloud) as desk:
        uuid = await desk.submit(
            "echo began; sleep 4",
            scheduling_parameters={"preemptible": True},
            container_count_max=5,
        )
        for attempt in range(1, 3):
            container = await desk.until(uuid, "Running")
            assert container["scheduling_parameters"]["preemptible"] is True
            # A VM that is lost before its first line has arrived leaves no log.
            await until(lambda one=container: _has_log(desk, uuid, one["uuid"]))
            await asyncio.to_thread(reclaim, cloud)
            await until(lambda n=attempt: _has_attempts(desk, uuid, n + 1))
            ended = await desk.client.get("containers", container["uuid"])
            assert (ended["state"], ended["runtime_status"]["failure"]) == (
                "Cancelled",
                "preempted",
            )
            assert ended["cost"] > 0
            assert ended["log"] is not None
            assert ended["exit_code"] is None
        container = await desk.until(uuid, "Complete")
        assert (container["exit_code"], container["scheduling_parameters"]["preemptible"]) == (
            0,
            False,
        )
        request = await desk.client.get("container_requests", uuid)
        assert request["container_count"] == 3
        assert request["cumulative_cost"] >= container["cost"] > 0
        await until_no_vm(cloud)


def reclaim(cloud: Cloud) -> None:
    """What EC2 does with a spot instance."""
    cloud.ec2.client.terminate_instances(InstanceIds=list(cloud.ec2.running()))


async def _has_log(desk: Desk, request: str, container: str) -> bool:
    try:
        path = f"container_requests/{request}/log/{container}/stdout.txt"
        return (await desk.client.raw("GET", path)).body != b""
    except NotFound:
        return False


async def _has_attempts(desk: Desk, uuid: str, count: int) -> bool:
    return bool((await desk.client.get("container_requests", uuid))["container_count"] >= count)
