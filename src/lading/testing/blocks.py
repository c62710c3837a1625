"""A block store in this process, and a client of it."""

from __future__ import annotations

import asyncio
import time

from lading.blobs.app import make_app
from lading.client.blocks import BlockClient
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.config import Collections
from lading.testing.asgi import AsgiTransport
from lading.testing.volume import MemoryVolume

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


async def _any_token(_: str) -> None:
    """Every token may use the store."""


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


class BlockStore:
    """The real service over a volume in memory: `volume`, `transport` and a `client` that never waits to try again."""

    def __init__(self, volume: MemoryVolume | None = None, *, signing_key: str = "key") -> None:
        self.volume = volume or MemoryVolume()
        config = Collections(BlobSigningKey=signing_key)
        app = make_app([self.volume], config, clock=time.time, check_token=_any_token)
        self.transport: Transport = AsgiTransport(app)
        self.client = self.over(self.transport)

    def over(self, transport: Transport, *, token: str = TOKEN) -> BlockClient:
        """A client over another transport to this store."""
        return BlockClient(transport, token, retry=RetryPolicy(attempts=50), sleep=_at_once)
