"""Containers over VMs of an EC2 on this machine, with a dispatcher that is killed twice.

`python -m tests.system.cloud --containers 300 --machines 20` is the large form, `test_cloud` the
small one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import yaml

from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_file
from lading.core.data.filetree import files, from_manifest
from tests.system.cluster import LADING, Cluster, free_address, running_cluster
from tests.system.desk import Desk, desk_of
from tests.system.ec2 import IMAGE, Ec2, running_ec2

TYPES = {
    "small": {
        "ProviderType": "t3.small",
        "VCPUs": 3,
        "RAM": "1GiB",
        "IncludedScratch": "10GiB",
        "Price": 0.1,
    }
}
DISPATCHERS = 3


@dataclass
class Cloud:
    """A server, an EC2, and a dispatcher between them."""

    root: Path
    cluster: Cluster
    ec2: Ec2
    dispatcher: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start the dispatcher."""
        command = [LADING, "dispatch", "--join", str(self.root / "join"), "--fleet", "cloud"]
        with (self.root / "dispatcher.log").open("ab") as log:
            self.dispatcher = subprocess.Popen(
                [
                    *command, "--data", str(self.root / "d"),
                    "--config", str(self.root / "cloud.yml"),
                ],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.dispatcher.stdout is not None
        line = self.dispatcher.stdout.readline()
        assert "dispatching to cloud" in line, (self.root / "dispatcher.log").read_text()[-3000:]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it."""
        process, self.dispatcher = self.dispatcher, None
        if process is not None:
            process.send_signal(number)
            process.wait(30)
            assert process.stdout is not None
            process.stdout.close()

    def log(self) -> str:
        """What the dispatchers said."""
        return (self.root / "dispatcher.log").read_text()


@contextmanager
def running_cloud(root: Path, *, types: dict[str, Any], **settings: Any) -> Iterator[Cloud]:
    """All of it; at the end no VM may be left that a dispatcher could have removed."""
    number = 100 + os.getpid() % 100
    with running_ec2(root / "vms", number=number) as ec2:
        port = free_address().rpartition(":")[2]
        config = (
            "Containers: {Dispatcher: none, StopGracePeriod: 300ms}\n"
            f"InstanceTypes: {json.dumps(types)}\n"
        )
        with running_cluster(
            root / "data", config, address=f"{ec2.machines.network.host}:{port}"
        ) as cluster:
            cluster.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
            cluster.lading(
                "admin", "dispatcher-token", str(root / "join"), "--data", str(cluster.data)
            )
            told = {
                "Driver": "ec2", "DriverParameters": ec2.parameters, "ImageID": IMAGE,
                "BootProbeCommand": "true", "TimeoutIdle": "3s", "SyncInterval": "1s",
                "ProbeInterval": "2s", "TimeoutShutdown": "2s", "MaxProbesPerSecond": 100,
                **settings,
            }  # fmt: skip
            document = {
                "InstanceTypes": types,
                "Containers": {"ReserveExtraRAM": 0, "CloudVMs": told},
            }
            (root / "cloud.yml").write_text(yaml.safe_dump(document))
            made = Cloud(root, cluster, ec2)
            try:
                yield made
            finally:
                made.stop()


async def until_no_vm(cloud: Cloud) -> None:
    """The dispatcher has removed them all."""
    while await asyncio.to_thread(cloud.ec2.running) or cloud.ec2.machines.list():
        await asyncio.sleep(0.2)


async def submit_all(desk: Desk, count: int, *, seconds: float) -> list[str]:
    """Requests whose containers say their number and write it."""
    script = "sleep {seconds}; echo said {number}; echo wrote {number} >/out/file"
    return [
        await desk.submit(script.format(seconds=seconds, number=number)) for number in range(count)
    ]


async def check_all(desk: Desk, uuids: list[str]) -> None:
    """Each has run once and ended once, and its output and log are right."""
    blocks = BlockClient(desk.client.transport, desk.client.token)
    for number, uuid in enumerate(uuids):
        container = await desk.until(uuid, "Complete", "Cancelled")
        assert (container["state"], container["exit_code"]) == ("Complete", 0), container[
            "runtime_status"
        ]
        # What a dispatcher has locked and not started when it is killed, the next one locks again.
        assert container["lock_count"] <= DISPATCHERS
        told = await desk.client.list(
            "logs", filters=[["object_uuid", "=", container["uuid"]]], limit=100
        )
        states = [
            state
            for one in told
            if (state := one["properties"].get("new_attributes", {}).get("state"))
        ]
        moves = [state for state, _ in groupby(states)]
        assert moves.count("Running") == moves.count("Complete") == 1, moves
        request = await desk.client.get("container_requests", uuid)
        assert request["container_count"] == 1
        assert request["cumulative_cost"] == container["cost"] > 0
        assert await _read(desk, blocks, request["output_uuid"], "file") == f"wrote {number}\n"
        said = await _read(desk, blocks, request["log_uuid"], "stdout.txt")
        assert [line.partition(" ")[2] for line in said.splitlines()] == [f"said {number}"]


async def _read(desk: Desk, blocks: BlockClient, uuid: str, name: str) -> str:
    """The file of that name in a collection, wherever it is there."""
    record = await desk.client.get("collections", uuid)
    found = [
        one
        for path, one in files(from_manifest(record["manifest_text"]))
        if path.rpartition("/")[2] == name
    ]
    return b"".join([piece async for piece in read_file(blocks, found[0])]).decode()


async def play(cloud: Cloud, *, containers: int, seconds: float, limit: float) -> None:
    """Submit, kill the dispatcher twice while they run, see that all is right and that no VM is
    left.
    """
    cloud.start()
    async with desk_of(cloud.cluster, limit=limit) as desk:
        uuids = await submit_all(desk, containers, seconds=seconds)
        for number in range(DISPATCHERS - 1):
            await desk.until(uuids[number * len(uuids) // 3], "Running", "Complete")
            cloud.stop(signal.SIGKILL)
            await asyncio.to_thread(cloud.start)
        await check_all(desk, uuids)
        await until_no_vm(cloud)
    assert cloud.ec2.troubles == {}


def main() -> int:
    """The large form; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.cloud", description=__doc__)
    parser.add_argument("--containers", type=int, default=300)
    parser.add_argument("--machines", type=int, default=20)
    parser.add_argument(
        "--limit", type=float, default=900.0, help="seconds after which it has failed"
    )
    given = parser.parse_args()
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="lading-cloud-") as folder,
        running_cloud(Path(folder), types=TYPES, MaxInstances=given.machines) as cloud,
    ):
        asyncio.run(play(cloud, containers=given.containers, seconds=1.0, limit=given.limit))
        most, made = cloud.ec2.most, cloud.ec2.started
    sys.stdout.write(
        f"{given.containers} containers finished once each over {made} VMs, "
        f"at most {most} at a time; the dispatcher was killed twice; no VM is left; "
        f"{time.monotonic() - began:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
