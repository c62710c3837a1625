"""What requests can ask for, with real dispatcher and supervisor: sizes from a range, the network,
order and time.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lading.client.api import ApiClient, Record
from lading.client.servers.environment import find_server
from lading.core.data import filetree
from lading.core.quantities import format_time
from tests.repository import Repository
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
        async with asyncio.timeout(180):
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
        done = await client.until(
            await client.submit("cat /dev/null", runtime_constraints=wanted), "Complete"
        )
        assert (done["runtime_constraints"]["vcpus"], done["runtime_constraints"]["ram"]) == (
            2,
            128 << 20,
        )

    scene(cluster, act)


def test_secrets_reach_the_command_and_no_file_of_the_server(cluster: Cluster) -> None:
    value = "canary-4f1d9c"
    mounts = {"/run/secrets/DB": {"kind": "text", "content": value, "environment_variable": "DB"}}

    async def act(client: Client) -> None:
        script = 'read -r kept < /run/secrets/DB || :; test "$kept" = "$DB" && test "${#DB}" = 13'
        request = await client.submit(script, secret_mounts=mounts, use_existing=False)
        done = await client.until(request, "Complete", "Cancelled")
        assert (done["state"], done["exit_code"]) == ("Complete", 0)
        shown = [
            await client.api.get("container_requests", request["uuid"]),
            done,
            await client.api.list("logs", limit=1000),
        ]
        assert value not in str(shown)
        files = [path for path in cluster.data.rglob("*") if path.is_file()]
        assert len(files) > 5
        held = await asyncio.to_thread(
            lambda: [path for path in files if value.encode() in _content(path)]
        )
        assert not held

    scene(cluster, act)


def _content(path: Path) -> bytes:
    # A file that was removed meanwhile.
    with contextlib.suppress(OSError):
        return path.read_bytes()
    return b""


def test_the_internet_without_the_api(cluster: Cluster) -> None:
    async def act(client: Client) -> None:
        sizes = {"vcpus": 1, "ram": 64 << 20}
        for internet in (True, False):
            wanted = "!=" if internet else "="
            script = (
                "found=; while read -r name _; "
                'do test "$name" = eth0: && found=1; done < /proc/net/dev;'
                f' test "$found" {wanted} "" -a -z "$ARVADOS_API_TOKEN"'
            )
            request = await client.submit(
                script, runtime_constraints={**sizes, "internet": internet}
            )
            assert (await client.until(request, "Complete", "Cancelled"))["exit_code"] == 0, (
                internet
            )

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


def test_a_git_tree_is_run_and_what_a_link_leads_to_in_it_is_saved(
    cluster: Cluster, tmp_path: Path
) -> None:
    repository = Repository(tmp_path / "repository")
    (tmp_path / "repository" / "hello").write_text("#!/bin/sh\necho hello from $0\n")
    (tmp_path / "repository" / "hello").chmod(0o755)
    repository.commit(data__notes="a note")

    async def act(client: Client) -> None:
        await client.api.create("repositories", {"name": "tools", "fetch_url": repository.url})
        tree = {"kind": "git_tree", "repository_name": "tools", "commit": "main"}
        mounts = {
            "/out": {"kind": "tmp"},
            "/src": tree,
            "/note": {**tree, "path": "data/notes"},
        }
        script = "/src/hello > /out/said; ln -s /src/data /out/kept; ln -s /note /out/note"
        request = await client.submit(script, mounts=mounts, cwd="/out")
        ended = await client.until(request, "Cancelled", "Complete")
        assert (ended["state"], ended["exit_code"]) == ("Complete", 0), ended["runtime_status"]
        record = await client.api.get("collections", ended["output"])
        names = [
            path for path, _ in filetree.files(filetree.from_manifest(record["manifest_text"]))
        ]
        assert names == ["kept/notes", "note", "said"]

    scene(cluster, act)
