"""Blocks over any transport: put bytes, get bytes whose hash was checked (api-contract 6.3).

Hashing of large blocks goes to a thread. What was read and does not match its hash is never returned.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import OrderedDict
from collections.abc import Callable

from lading.client.api import error_of
from lading.client.retry import Retries, RetryPolicy, Sleep
from lading.client.transport import Response, Transport
from lading.core import locator as locators
from lading.core.errors import Corrupt, TooLarge, Unavailable

_IN_THREAD = 1 << 18
_TIMEOUT = 300.0


class BlockClient:
    """Puts and gets blocks with one token over one transport, which it does not own."""

    def __init__(
        self,
        transport: Transport,
        token: str,
        *,
        retry: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._transport = transport
        self._headers = {"Authorization": f"Bearer {token}"}
        self._retries = Retries(policy=retry or RetryPolicy(), sleep=sleep, chance=chance)

    async def put(self, data: bytes | bytearray) -> str:
        """Store at most 64 MiB durably; the signed locator.

        Raises TooLarge, Full, Unauthenticated, or Unavailable when the store cannot be reached.
        """
        if len(data) > locators.MAX_BLOCK:
            raise TooLarge(f"a block of {len(data)} bytes is larger than {locators.MAX_BLOCK}; cut it up")
        digest = await hash_block(data)

        async def attempt() -> str:
            answer = await self._exchange("PUT", f"/{digest}", data)
            stored = locators.parse(answer.body.decode(errors="replace").strip())
            if (stored.hash, stored.size) != (digest, len(data)):
                raise Corrupt(f"{digest}+{len(data)}: the store says it kept {stored.bare}")
            return str(stored)

        return await self._retries.run(attempt)

    async def get(self, locator: str) -> bytes:
        """The block's bytes, their hash verified.

        Raises NotFound, Corrupt, Malformed (signature missing or forged), Unauthenticated (expired), Unavailable.
        """
        wanted = locators.parse(locator)
        if wanted.hash == locators.EMPTY_HASH:
            return b""

        async def attempt() -> bytes:
            answer = await self._exchange("GET", f"/{locator}", b"")
            if wanted.size is not None and len(answer.body) != wanted.size:
                raise Unavailable(f"{wanted.bare}: only {len(answer.body)} bytes came")
            if await hash_block(answer.body) != wanted.hash:
                raise Corrupt(f"{wanted.bare}: the bytes that came do not match the hash")
            return answer.body

        return await self._retries.run(attempt)

    async def _exchange(self, method: str, path: str, body: bytes | bytearray) -> Response:
        answer = await self._transport.request(method, path, headers=self._headers, body=body, timeout=_TIMEOUT)
        if answer.status >= 400:
            raise error_of(answer, f"{method} {path[:33]}")
        return answer


class BlockCache:
    """The last few blocks that were read, for readers that come back to them; one fetch for equal wishes at a time."""

    def __init__(self, blocks: BlockClient, *, keep: int = 2) -> None:
        self._blocks = blocks
        self._keep = keep
        self._fetches: OrderedDict[str, asyncio.Task[bytes]] = OrderedDict()

    def expect(self, locator: str) -> None:
        """Start to fetch a block that will be wanted soon."""
        self._fetch(locator)

    async def get(self, locator: str) -> bytes:
        """The block's bytes. Raises as `BlockClient.get`."""
        fetch = self._fetch(locator)
        try:
            return await asyncio.shield(fetch)
        finally:
            if fetch.done() and (fetch.cancelled() or fetch.exception() is not None):
                self._fetches.pop(locator[:32], None)

    async def close(self) -> None:
        """Give up what is still being fetched."""
        fetches = list(self._fetches.values())
        self._fetches.clear()
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)

    def _fetch(self, locator: str) -> asyncio.Task[bytes]:
        key = locator[:32]
        fetch = self._fetches.get(key)
        if fetch is None:
            fetch = self._fetches[key] = asyncio.create_task(self._blocks.get(locator), name=f"block {key}")
            for old in list(self._fetches)[: -self._keep]:
                if self._fetches[old].done():
                    del self._fetches[old]
        self._fetches.move_to_end(key)
        return fetch


async def hash_block(data: bytes | bytearray) -> str:
    """The MD5 of a block, 32 hex digits; in a thread when it is large."""
    if len(data) > _IN_THREAD:
        return await asyncio.to_thread(_md5, data)
    return _md5(data)


def _md5(data: bytes | bytearray) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
