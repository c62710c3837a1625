"""The API, the blocks and the gateway as one application in this process, and short ways to call
it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from lading.api.container_access.port_addresses import PortAddresses
from lading.blobs.app import make_app as make_block_app
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.transport import Body, Response, Transport
from lading.core.data import filetree
from lading.core.records.schema import JSON, Record
from lading.fileserving.services import make_file_services
from lading.testing.asgi import AsgiTransport
from lading.testing.blocks import MemoryVolume
from lading.testing.world import World, world
from lading.webdav.app import make_app
from lading.wiring.server import combine


@dataclass(slots=True, kw_only=True)
class Site:
    """A world with files."""

    world: World
    volume: MemoryVolume
    transport: Transport
    gateway: ASGIApp

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str | None = None,
        headers: Mapping[str, str] | None = None,
        body: Body = b"",
    ) -> Response:
        """One exchange, as the admin by default; a token of "" sends none."""
        given = self.world.admin if token is None else token
        sent = {"authorization": f"Bearer {given}"} if given else {}
        async with self.transport.stream(
            method, path, headers={**sent, **(headers or {})}, body=body
        ) as answer:
            return Response(answer.status, answer.headers, await answer.read())

    async def store(self, data: bytes) -> str:
        """A block in the volume; its locator without signature."""
        locator = self.world.blocks.put(data)
        await self.volume.put(locator[:32], data)
        return locator

    async def collection(self, files: Mapping[str, bytes], **attributes: JSON) -> str:
        """A collection of the admin with some files; the uuid."""
        nodes = {}
        for path, data in files.items():
            locator = await self.store(data)
            nodes[path] = filetree.File((filetree.Segment(locator, 0, len(data)),) if data else ())
        text = filetree.to_manifest(filetree.from_files(nodes))
        made = await self.world.ok("POST", "collections", {"manifest_text": text, **attributes})
        return str(made["uuid"])

    async def tree(self, uuid: str) -> list[str]:
        """The paths of a collection; directories end in a slash."""
        record: Record = await self.world.ok("GET", f"collections/{uuid}")
        found = filetree.walk(filetree.from_manifest(record["unsigned_manifest_text"]))
        return [f"{path}/" if isinstance(node, filetree.FileTree) else path for path, node in found]

    async def pdh(self, uuid: str) -> str:
        """The present content of a collection."""
        return str((await self.world.ok("GET", f"collections/{uuid}"))["portable_data_hash"])


@asynccontextmanager
async def site(
    root: Path, *, anonymous: str = "", cache_bytes: int = 1 << 20, **overrides: Any
) -> AsyncIterator[Site]:
    """A site below an empty directory; `anonymous` is the secret of those who send no token."""
    settings = {"Users": {"AnonymousUserToken": anonymous}, **overrides}
    async with world(root, **settings) as it:
        volume = MemoryVolume()
        mounts = VolumeSet([VolumeMount(uuid=f"{it.cluster}-nyw5e-000000000000000", volume=volume)])
        blocks = make_block_app(
            mounts, it.config, clock=lambda: it.clock().timestamp(), check_token=it.app.check_token
        )
        inner = AsgiTransport(combine(it.app, blocks, blocks, PortAddresses()))
        services = make_file_services(
            inner, cache=root / "cache", cache_bytes=cache_bytes, anonymous=anonymous
        )
        files = make_app(services, anonymous=anonymous)
        whole = AsgiTransport(combine(it.app, blocks, files, PortAddresses()))
        yield Site(world=it, volume=volume, transport=whole, gateway=files)
