"""What requests can ask for, with real dispatcher and supervisor: sizes from a range, the network, order and time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.environment import find_server
from lading.core.timestamps import format_time
from tests.system.cluster import Cluster, running_cluster

pytestmark = pytest.mark.system
CONFIG = "Local: {VCPUs: 2, RAM: 1GiB}\n"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(tmp_path_factory.mktemp("requests") / "data", CONFIG) as running:
        running.lading("image", "add", "--name", "tools:1", "--from-host", "sh", "sleep", "cat")
        yield running


class Client:
    """Makes requests and waits for them."""

    def __init__(self, api: ApiClient) -> None:
        self.api = api

    async def submit(self, script: str, **more: Any) -> Record:
        """Commit a request for a shell script."""
        spec = {
            "command": ["sh", "-c", script],
            "container_image": "tools:1",
            "output_path": "/out",
            "mounts": {"/out": {"kind": "tmp"}},
            "runtime_constraints": {"vcpus": 1, "ram": 64 << 20},
            "priority": 1,
            "state": "Committed",
        }
        return await self.api.create("container_requests", {**spec, **more})

    async def container(self, request: Record) -> Record:
        """The container of a request, as it is now."""
        found = await self.api.get("container_requests", request["uuid"])
        return await self.api.get("containers", found["container_uuid"])

    async def until(self, request: Record, *states: str) -> Record:
        """Wait until its container is in one of these states."""
        async with asyncio.timeout(60):
            while (found := await self.container(request))["state"] not in states:
                await asyncio.sleep(0.05)
        return found


def scene(cluster: Cluster, act: Callable[[Client], Awaitable[None]]) -> None:
    async def run() -> None:
        server = find_server(cluster.environment, cluster.data)
        transport = server.transport()
        try:
            await act(Client(ApiClient(transport, server.token)))
        finally:
            await transport.close()

    asyncio.run(run())


def in_seconds(seconds: float) -> str:
    return format_time(datetime.now(UTC) + timedelta(seconds=seconds))


def test_a_range_is_given_what_is_free(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        wanted = {"vcpus": [1, 8], "ram": [64 << 20, 128 << 20]}
        done = await client.until(await client.submit("cat /dev/null", runtime_constraints=wanted), "Complete")
        assert (done["runtime_constraints"]["vcpus"], done["runtime_constraints"]["ram"]) == (2, 128 << 20)

    scene(cluster, act)


def test_the_internet_without_the_api(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        sizes = {"vcpus": 1, "ram": 64 << 20}
        for internet, lines in ((True, "-gt 4"), (False, "-le 4")):
            script = (
                f'n=0; while read -r _; do n=$((n+1)); done < /proc/net/dev; test $n {lines} -a -z "$ARVADOS_API_TOKEN"'
            )
            request = await client.submit(script, runtime_constraints={**sizes, "internet": internet})
            assert (await client.until(request, "Complete", "Cancelled"))["exit_code"] == 0, internet

    scene(cluster, act)


def test_one_after_the_other_and_not_before_its_time(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        first = await client.submit("sleep 1; echo first > /out/a")
        moment = in_seconds(1.5)
        second = await client.submit("echo second", depends_on=[first["uuid"]], start_after=moment)
        assert (await client.container(second))["priority"] == 0
        ended = await client.until(second, "Complete")
        before = await client.container(first)
        assert ended["started_at"] > max(before["finished_at"], moment)
        failing = await client.submit("exit 3")
        third = await client.submit("echo third", depends_on=[failing["uuid"]])
        assert (await client.until(third, "Cancelled"))["started_at"] is None

    scene(cluster, act)


def test_what_has_expired_is_stopped(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        request = await client.submit("sleep 600", expires_at=in_seconds(2))
        await client.until(request, "Running")
        await client.until(request, "Cancelled")
        assert (await client.api.get("container_requests", request["uuid"]))["state"] == "Final"

    scene(cluster, act)


def test_what_the_supervisor_cannot_mount_it_says(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        mounts = {"/out": {"kind": "tmp"}, "/keep": {"kind": "keep"}}
        needs = {"vcpus": 1, "ram": 64 << 20, "API": True}
        request = await client.submit("true", mounts=mounts, runtime_constraints=needs, container_count_max=1)
        ended = await client.until(request, "Cancelled", "Complete")
        assert "cannot show the tree of all collections" in ended["runtime_status"]["error"]

    scene(cluster, act)
