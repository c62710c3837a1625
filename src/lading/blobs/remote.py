"""A volume of another server, used over HTTP.

So every server reads, writes and maintains all volumes, on any machine (`blobs.administration` is
the other side). Blocks received over the network are verified here again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from typing import Final

import msgspec

from lading.blobs.administration import MTIME
from lading.blobs.volume import Buffer, Discarded, Space, Stored
from lading.client.transport import Response, Transport
from lading.core.errors import Corrupt, NotFound, Unavailable, from_status

# Seconds for a whole request.
_TIMEOUT: Final = 300.0
# Larger blocks are hashed in a thread.
_IN_THREAD: Final = 1 << 18


class RemoteVolume:
    """The volume `uuid` of the server behind `transport`, which `close` closes; `token` is the root
    token.
    """

    def __init__(self, uuid: str, transport: Transport, token: str) -> None:
        self._uuid = uuid
        self._transport = transport
        self._headers = {"Authorization": f"Bearer {token}"}

    @property
    def device(self) -> str:
        """Identity by uuid, independent of the server."""
        return f"volume {self._uuid}"

    async def put(self, hash: str, data: Buffer) -> None:
        """Store a block; see BlockVolume."""
        # The body must be bytes: memoryviews are not accepted.
        await self._ask(
            "PUT",
            f"block/{hash}",
            body=data if isinstance(data, bytes | bytearray) else bytes(data),
        )

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block; see BlockVolume."""
        data = (await self._ask("GET", f"block/{hash}")).body
        if into is not None and len(data) > len(into):
            raise NotFound(f"{hash}: has {len(data)} bytes, not {len(into)}")
        if await _md5(data) != hash:
            raise Corrupt(f"{hash}: the data from volume {self._uuid} does not match the hash")
        if into is None:
            return data
        into[: len(data)] = data
        return into[: len(data)]

    async def head(self, hash: str) -> Stored:
        """Size and time of a block; see BlockVolume."""
        found = (await self._ask("HEAD", f"block/{hash}")).headers
        return Stored(hash, int(found["content-length"]), int(found[MTIME.lower()]))

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix; see BlockVolume."""
        for hash, size, moment in await self._list(f"blocks/{prefix}" if prefix else "blocks"):
            yield Stored(hash, size, moment)

    async def space(self) -> Space:
        """Total and free space; see BlockVolume."""
        found = msgspec.json.decode((await self._ask("GET", "space")).body, type=dict[str, int])
        return Space(found["total"], found["free"])

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def touch(self, hash: str) -> None:
        """Set the time of the last put; see Bin."""
        await self._ask("POST", f"block/{hash}/touch")

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block to the bin; see Bin."""
        await self._ask("POST", f"block/{hash}/discard", moment=mtime_ns)

    async def restore(self, hash: str) -> None:
        """Restore a block; see Bin."""
        await self._ask("POST", f"block/{hash}/restore")

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """All blocks in the bin; see Bin."""
        for hash, size, moment in await self._list("trash"):
            yield Discarded(hash, size, moment)

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Delete a block from the bin; see Bin."""
        await self._ask("POST", f"block/{hash}/delete", moment=discarded_ns)

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use; see Bin."""
        await self._ask("POST", f"block/{hash}/quarantine", moment=mtime_ns)

    async def _ask(
        self, method: str, path: str, *, body: bytes | bytearray = b"", moment: int | None = None
    ) -> Response:
        headers = self._headers if moment is None else {**self._headers, MTIME: str(moment)}
        answer = await self._transport.request(
            method, f"/mounts/{self._uuid}/{path}", headers=headers, body=body, timeout=_TIMEOUT
        )
        if answer.status >= 400:
            text = answer.body.decode(errors="replace").strip()
            raise from_status(
                answer.status,
                text or f"volume {self._uuid}: {method} {path}: status {answer.status}",
            )
        return answer

    async def _list(self, path: str) -> list[tuple[str, int, int]]:
        # Each index ends with an empty line; without it the listing has failed
        # (`administration._lines`).
        text = (await self._ask("GET", path)).body.decode(errors="replace")
        if text != "\n" and not text.endswith("\n\n"):
            raise Unavailable(f"volume {self._uuid}: its index ended early; try again")
        blocks = []
        for line in text.split("\n"):
            locator, _, moment = line.partition(" ")
            if locator:
                hash, _, size = locator.partition("+")
                blocks.append((hash, int(size), int(moment)))
        return blocks


async def _md5(data: bytes) -> str:
    if len(data) > _IN_THREAD:
        return await asyncio.to_thread(_hexdigest, data)
    return _hexdigest(data)


def _hexdigest(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
