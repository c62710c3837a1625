"""Requests made and watched through the API of a real cluster, as system tests do it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lading.client.api import ApiClient
from lading.client.transport import HttpTransport
from tests.system.cluster import Cluster


class Desk:
    """Requests of one user."""

    def __init__(self, cluster: Cluster, client: ApiClient) -> None:
        self.cluster, self.client = cluster, client

    async def submit(self, script: str, **more: Any) -> str:
        """Commit a request; its uuid."""
        made = await self.client.create(
            "container_requests",
            {
                "state": "Committed", "priority": 500, "container_image": "tools:1",
                "command": ["sh", "-ec", script], "cwd": "/out", "output_path": "/out",
                "mounts": {"/out": {"kind": "tmp", "capacity": 1 << 20}},
                "runtime_constraints": {"vcpus": 1, "ram": 64 << 20}, "use_existing": False, **more,
            },
        )  # fmt: skip
        return str(made["uuid"])

    async def cancel(self, uuid: str) -> None:
        """Cancel a request."""
        await self.client.action("container_requests", uuid, "cancel")

    async def container(self, uuid: str) -> dict[str, Any]:
        """The container of a request."""
        request = await self.client.get("container_requests", uuid)
        found: dict[str, Any] = await self.client.get("containers", request["container_uuid"])
        return found

    async def until(self, uuid: str, *states: str) -> dict[str, Any]:
        """The container once it is in one of these states."""
        while (found := await self.container(uuid))["state"] not in states:
            await asyncio.sleep(0.02)
        return found

    async def why(self, uuid: str) -> dict[str, Any]:
        """The explanation."""
        found: dict[str, Any] = await self.client.action(
            "container_requests", uuid, "why", method="GET"
        )
        return found

    async def until_told(self, uuid: str, word: str) -> str:
        """The status once it has this word."""
        while word not in (text := (await self.why(uuid))["scheduling_status"]):
            await asyncio.sleep(0.05)
        return str(text)

    async def until_decided(self, uuid: str, decision: str) -> None:
        """Once a dispatcher has written down this decision."""
        while decision not in [one["event_type"] for one in (await self.why(uuid))["dispatch"]]:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def desk_of(cluster: Cluster, *, token: str = "", limit: float = 90.0) -> AsyncIterator[Desk]:
    """A desk, for at most so many seconds."""
    transport = HttpTransport(unix_socket=cluster.data / "api.sock")
    try:
        async with asyncio.timeout(limit):
            yield Desk(
                cluster, ApiClient(transport, token or cluster.environment["ARVADOS_API_TOKEN"])
            )
    finally:
        await transport.close()
