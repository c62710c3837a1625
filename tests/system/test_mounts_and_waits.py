"""What mounts and output paths give a command, what containers wait for, and what holds a VCPU."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import Record
from lading.testing.images import first_layer, make_archive, make_layer, tiny_image
from tests.system.cluster import Cluster, running_cluster
from tests.system.test_requests import Client, scene

pytestmark = pytest.mark.system
CONFIG = "Local: {VCPUs: 1, RAM: 512MiB}\n"
LARGE = 320 << 20
"""Bytes of an image that takes longer to unpack than a short command takes."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("mounts") / "data", CONFIG) as running:
        running.lading(
            "image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat", "mkdir"
        )
        yield running


async def output_of(client: Client, done: Record) -> list[str]:
    found = await client.api.get("collections", done["output"])
    return [token for token in found["manifest_text"].split() if token.count(":") == 2]


def collection(cluster: Cluster, path: Path) -> str:
    return cluster.lading("put", str(path)).stdout.strip()


def test_files_mounts_and_copies(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "reads.fq").write_text("ACGT\n")
    stored = collection(cluster, tmp_path / "reads.fq")
    source = {"kind": "collection", "portable_data_hash": stored}
    mounts: dict[str, Any] = {
        "/made": {"kind": "tmp", "device_type": "ram"},
        "/in": source,
        "/copy": {**source, "writable": True},
        "/again/reads.fq": {"kind": "file", "path": "/in/reads.fq"},
        "stdin": {"kind": "file", "path": "/copy/reads.fq"},
        "stderr": {"kind": "file", "path": "/copy/complaints"},
    }
    script = (
        "{ cat; cat /again/reads.fq /copy/reads.fq; } > /made/deep/result; "
        "echo more >> /copy/reads.fq"
    )

    async def act(client: Client) -> None:
        request = await client.submit(script, mounts=mounts, output_path="/made/deep/result")
        done = await client.until(request, "Complete", "Cancelled")
        assert (done["state"], done["exit_code"]) == ("Complete", 0), done["runtime_status"]
        assert await output_of(client, done) == ["0:15:result"]
        whole = {"/work.d": {**source, "writable": True}}
        request = await client.submit(
            "cat /work.d/reads.fq > /work.d/b", mounts=whole, output_path="/work.d"
        )
        done = await client.until(request, "Complete", "Cancelled")
        assert {one.rpartition(":")[2] for one in await output_of(client, done)} == {
            "b",
            "reads.fq",
        }

    scene(cluster, act)


def test_what_was_waited_for_is_told_afterwards(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        first = await client.submit("sleep 4")
        await client.until(first, "Running")
        second = await client.submit("sleep 0", name="second")
        await client.until(second, "Complete")
        async with asyncio.timeout(60):
            while not (why := await client.api.get("container_requests", f"{second['uuid']}/why"))[
                "waited"
            ]:
                await asyncio.sleep(0.2)
        assert why["waited"][0]["text"].endswith("s for 1 VCPU and 64.0 MiB RAM")

    scene(cluster, act)


def test_clients_are_warned_of_what_no_machine_can_hold(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        request = await client.submit("true", runtime_constraints={"vcpus": 64, "ram": 64 << 20})
        async with asyncio.timeout(120):
            while not (found := await client.container(request))["runtime_status"]:
                await asyncio.sleep(0.5)
        assert (found["state"], found["runtime_status"].keys()) == ("Queued", {"warning"})
        assert "it needs 64 VCPUs" in found["runtime_status"]["warning"]
        await client.api.action("container_requests", request["uuid"], "cancel")

    scene(cluster, act)


def test_an_image_that_is_unpacked_holds_no_vcpu(cluster: Cluster, tmp_path: Path) -> None:
    large = make_layer({f"large/{number}": os.urandom(LARGE // 8) for number in range(8)})
    _, archive = make_archive([first_layer(tiny_image()[1]), large])
    (tmp_path / "large.tar").write_bytes(archive)
    cluster.lading("image", "add", str(tmp_path / "large.tar"), "--name", "large:1")

    async def act(client: Client) -> None:
        first = await client.submit("true", container_image="large:1")
        await client.until(first, "Locked", "Running")
        short = await client.until(await client.submit("echo short"), "Complete")
        done = await client.until(first, "Complete", "Cancelled")
        assert (done["exit_code"], short["finished_at"] < done["started_at"]) == (0, True)

    scene(cluster, act)
