"""A block store in this process, and a client of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

from lading.blobs.app import make_app
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.blocks import BlockClient
from lading.client.collections import Progress
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.client.uploads import Upload
from lading.config import Collections, Config
from lading.testing.asgi import AsgiTransport
from lading.testing.volume import MemoryVolume

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


async def _any_token(_: str, /, *, writing: bool) -> None:
    """Every token may use the store."""


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


async def upload(
    blocks: BlockClient, sources: Mapping[str, Path], *, progress: Progress | None = None
) -> str:
    """Store files and directories; the manifest."""
    with Upload(sources) as work:
        await work.look()
        await work.hash()
        return "".join(await work.send(blocks, progress=progress))


class BlockStore:
    """The real service over a volume in memory: `volume`, `transport` and a `client` that never
    waits to try again.
    """

    def __init__(self, volume: MemoryVolume | None = None, *, signing_key: str = "key") -> None:
        self.volume = volume or MemoryVolume()
        config = Config(Collections=Collections(BlobSigningKey=signing_key))
        mounts = VolumeSet(
            [VolumeMount(uuid="zzzzz-nyw5e-000000000000000", volume=self.volume, copies=None)]
        )
        app = make_app(mounts, config, clock=time.time, check_token=_any_token)
        self.transport: Transport = AsgiTransport(app)
        self.client = self.over(self.transport)

    def over(self, transport: Transport, *, token: str = TOKEN) -> BlockClient:
        """A client over another transport to this store."""
        return BlockClient(transport, token, retry=RetryPolicy(attempts=50), sleep=_at_once)
