"""Client of the block store over any transport (docs/spec/api, section Blocks).

Large blocks are hashed in a thread. A block that does not match its hash is never returned.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import msgspec

from lading.client.api import error_of
from lading.client.file_parts import FilePart, shorter
from lading.client.receiving import Receiving, Sink, Unusual
from lading.client.retry import Retries, RetryPolicy, Sleep
from lading.client.transport import Response, Transport
from lading.core.data import locator as locators
from lading.core.errors import Corrupt, Full, LadingError, TooLarge, Unavailable
from lading.process.cancellation import Stop, Stopped
from lading.process.concurrency import in_thread
from lading.process.portable import FileAdvice, advise, read_into, write_at

Borrow = Callable[[str], Awaitable[int | None]]
"""Gives a descriptor of a file that should be the block of this locator, not verified, for the
caller to close; None if there is none.
"""

# Pieces above this size are hashed in a thread: the event loop would stand still for too long.
_IN_THREAD = 1 << 18
# Bytes that are collected from the HTTP library before they are written.
_BATCH = 1 << 22
# Bytes read at a time to hash a file.
_PART = 1 << 20
# Bytes per write (see `_write_at`).
_WRITTEN = 1 << 16
# Least size of a block that is borrowed; to ask for the file of a smaller one takes longer than to
# receive it.
_LENT = 1 << 20
# Seconds for a whole exchange, or between two pieces of a streamed one.
_TIMEOUT = 300.0


class Keeping(msgspec.Struct, frozen=True, kw_only=True):
    """Requested storage of blocks: number of copies in each class; None and () are the store's
    defaults. `best_effort`: a block that is stored in other classes is no error.
    """

    copies: int | None = None
    classes: tuple[str, ...] = ()
    best_effort: bool = False

    def headers(self) -> dict[str, str]:
        """The request headers for it."""
        copies = {} if self.copies is None else {"X-Keep-Desired-Replicas": str(self.copies)}
        return (
            {**copies, "X-Keep-Storage-Classes": ", ".join(self.classes)}
            if self.classes
            else copies
        )

    def check(self, answer: Response, block: str) -> None:
        """Raise Full, naming the block, if the response confirms fewer copies than requested."""
        if self.best_effort:
            return
        copies = self.copies or 1
        if (
            not self.classes
            and self.copies
            and int(answer.headers.get("x-keep-replicas-stored", "0")) < copies
        ):
            raise Full(f"{block}: kept in fewer than {copies} copies; see 'lading admin volumes'")
        named = answer.headers.get("x-keep-storage-classes-confirmed", "")
        # "default=2, archive=1": confirmed copies by class.
        confirmed = dict(
            confirmation.split("=") for confirmation in named.split(", ") if "=" in confirmation
        )
        for name in self.classes:
            if int(confirmed.get(name, "0")) < copies:
                raise Full(
                    f"{block}: kept in fewer than {copies} copies in class {name}; "
                    "see 'lading admin volumes'"
                )


ANYHOW: Final = Keeping()


class BlockClient:
    """Puts and gets blocks with one token over one transport, which the caller closes.

    `trusting`: the way to the store cannot corrupt bytes (a socket of this machine), so that only
    the store hashes sent blocks. `keeping`: copies and classes of sent blocks. `borrow`: a source
    of files of blocks on this machine, which `save` copies; a block that has no such file, or a
    damaged one, is fetched.
    """

    def __init__(
        self,
        transport: Transport,
        token: str,
        *,
        trusting: bool = False,
        keeping: Keeping = ANYHOW,
        borrow: Borrow | None = None,
        retry: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
        chance: Callable[[], float] = random.random,
        tell: Callable[[LadingError], None] | None = None,
    ) -> None:
        self._transport = transport
        self._token = token
        self._trusting = trusting
        self._keeping = keeping
        self._borrow = borrow
        self._headers = {"Authorization": f"Bearer {token}", **keeping.headers()}
        self._retries = Retries(
            policy=retry or RetryPolicy(), sleep=sleep, chance=chance, tell=tell
        )

    def keeping(self, keeping: Keeping) -> BlockClient:
        """The same client for another number of copies or other classes."""
        retries = self._retries
        return BlockClient(
            self._transport,
            self._token,
            trusting=self._trusting,
            keeping=keeping,
            borrow=self._borrow,
            retry=retries.policy,
            sleep=retries.sleep,
            chance=retries.chance,
            tell=retries.tell,
        )

    async def put(self, data: bytes | bytearray, digest: str = "") -> str:
        """Store at most 64 MiB durably; return the signed locator.

        `digest`: their MD5 if it is known; the store refuses other bytes under it. Raises TooLarge,
        Full, Unauthenticated, or Unavailable when the store cannot be reached.
        """
        if len(data) > locators.MAX_BLOCK:
            raise TooLarge(
                f"a block of {len(data)} bytes is larger than {locators.MAX_BLOCK}; cut it up"
            )
        # A PUT names the hash, which the store verifies; a POST leaves the hash to the store.
        digest = digest or ("" if self._trusting else await hash_block(data))

        async def attempt() -> str:
            answer = await self._exchange("PUT" if digest else "POST", f"/{digest}", data)
            return self._stored(answer, digest, len(data))

        return await self._retries.run(attempt)

    async def put_part(self, descriptor: int, start: int, length: int, digest: str = "") -> str:
        """Store a part of an open file as a block, in small pieces; return the signed locator.

        The part is read twice, to hash it (unless `trusting`, or its `digest` is known) and to send
        it, and again in each retry. Raises as `put`; Malformed also when the file changes
        meanwhile, Invalid when it is too short.
        """
        if not digest and not self._trusting:
            digest = await hash_part(descriptor, start, length)
        headers = {**self._headers, "Content-Length": str(length)}

        async def attempt() -> str:
            parts = FilePart(descriptor, start, length)
            method = "PUT" if digest else "POST"
            stream = self._transport.stream(
                method, f"/{digest}", headers=headers, body=parts, timeout=_TIMEOUT
            )
            async with stream as sent:
                answer = Response(sent.status, sent.headers, await sent.read())
            if answer.status >= 400:
                raise error_of(answer, f"{method} /{digest}")
            return self._stored(answer, digest, length)

        return await self._retries.run(attempt)

    async def get(self, locator: str) -> bytes:
        """The block's bytes, their hash verified.

        Raises NotFound, Corrupt, Malformed (signature missing or forged), Unauthenticated
        (expired), Unavailable.
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

    async def save(self, locator: str, descriptor: int, start: int = 0) -> None:
        """Write the block's bytes into an open file, from the offset `start` on, in pieces; return
        after their hash was verified. No thread writes to it after the return.

        Raises as `get`, and OSError when the file cannot be written; after an error the bytes there
        are undefined.
        """
        wanted = locators.parse(locator)
        if wanted.hash != locators.EMPTY_HASH and not await self._save_lent(
            wanted, locator, descriptor, start
        ):
            await self._retries.run(lambda: self._save(wanted, locator, descriptor, start))

    async def _save_lent(
        self, block: locators.Locator, locator: str, descriptor: int, start: int
    ) -> bool:
        """Write the bytes of a borrowed file; whether they are the block."""
        if self._borrow is None or not block.size or block.size < _LENT:
            return False
        lent = await self._borrow(locator)
        if lent is None:
            return False
        try:
            return await in_thread(
                lambda stop, own: _copy_block(own[0], own[1], block, start, stop=stop),
                lent,
                descriptor,
                is_waited_for=True,
            )
        finally:
            os.close(lent)

    async def _save(
        self, block: locators.Locator, locator: str, descriptor: int, start: int
    ) -> None:
        digest, size = hashlib.md5(usedforsecurity=False), 0

        def keep(piece: memoryview, offset: int) -> None:
            digest.update(piece)
            _write_at(descriptor, piece, start + offset)

        async def add(piece: memoryview) -> None:
            nonlocal size
            # Hashing and writing a large piece would stop the event loop; a small piece takes less
            # time than a thread.
            if len(piece) > _IN_THREAD:
                await in_thread(lambda *_: keep(piece, size), is_waited_for=True)
            else:
                keep(piece, size)
            size += len(piece)

        await self._receive(locator, add)
        if block.size is not None and size != block.size:
            raise Unavailable(f"{block.bare}: only {size} bytes came")
        if digest.hexdigest() != block.hash:
            raise Corrupt(f"{block.bare}: the bytes that came do not match the hash")

    async def _receive(self, locator: str, sink: Sink) -> None:
        path = f"/{locator}"
        # Fast path without the HTTP library; `Unusual` means that nothing was consumed, and that
        # the library shall read the response.
        if isinstance(self._transport, Receiving):
            with suppress(Unusual):
                await self._transport.receive(
                    path, headers=self._headers, sink=sink, timeout=_TIMEOUT
                )
                return
        batch = bytearray()
        async with self._transport.stream(
            "GET", path, headers=self._headers, timeout=_TIMEOUT
        ) as answer:
            if answer.status >= 400:
                whole = Response(answer.status, answer.headers, await answer.read())
                raise error_of(whole, f"GET /{locator[:32]}")
            async for chunk in answer.chunks:
                batch += chunk
                if len(batch) >= _BATCH:
                    await sink(memoryview(batch))
                    batch = bytearray()
        await sink(memoryview(batch))

    def _stored(self, answer: Response, digest: str, length: int) -> str:
        """The locator in the response; `digest` is "" when only the store has hashed the block."""
        stored = locators.parse(answer.body.decode(errors="replace").strip())
        if (digest and stored.hash != digest) or stored.size != length:
            raise Corrupt(f"{digest}+{length}: the store says it kept {stored.bare}")
        self._keeping.check(answer, stored.bare)
        return str(stored)

    async def _exchange(self, method: str, path: str, body: bytes | bytearray) -> Response:
        answer = await self._transport.request(
            method, path, headers=self._headers, body=body, timeout=_TIMEOUT
        )
        if answer.status >= 400:
            raise error_of(answer, f"{method} {path[:33]}")
        return answer


async def hash_block(data: bytes | bytearray) -> str:
    """The MD5 of a block, 32 hex digits; large blocks are hashed in a thread."""
    if len(data) > _IN_THREAD:
        return await asyncio.to_thread(_md5, data)
    return _md5(data)


def _write_at(descriptor: int, view: memoryview, offset: int) -> None:
    while view:
        # One write of many pages makes the kernel allocate large folios for its page cache, which
        # are seldom free and expensive to make.
        written = write_at(descriptor, view[:_WRITTEN], offset)
        view, offset = view[written:], offset + written


def _copy_block(
    lent: int, descriptor: int, block: locators.Locator, start: int, *, stop: Stop
) -> bool:
    """Copy a file into another one at `start`; whether the copied bytes are the block. Raises
    OSError when they cannot be written, and Stopped.
    """
    digest, size, done = hashlib.md5(usedforsecurity=False), block.size or 0, 0
    buffer = memoryview(bytearray(_PART))
    # Hashing and writing overlap with the read.
    advise(lent, FileAdvice.WILL_NEED, length=size)
    while done < size:
        if stop():
            raise Stopped
        try:
            count = read_into(lent, buffer[: size - done], done)
        except OSError:
            # A fault of the disk of the store, which can have another copy.
            return False
        if not count:
            return False
        digest.update(buffer[:count])
        _write_at(descriptor, buffer[:count], start + done)
        done += count
    return digest.hexdigest() == block.hash


def _md5_of_part(descriptor: int, start: int, length: int) -> str:
    digest = hashlib.md5(usedforsecurity=False)
    buffer = memoryview(bytearray(min(_PART, length)))
    done = 0
    while done < length:
        count = read_into(descriptor, buffer[: length - done], start + done)
        if not count:
            raise shorter(start + done)
        digest.update(buffer[:count])
        done += count
    return digest.hexdigest()


async def hash_part(descriptor: int, start: int, length: int) -> str:
    """The MD5 of a part of an open file, 32 hex digits. Raises Invalid when the file is too
    short.
    """
    return await asyncio.to_thread(_md5_of_part, descriptor, start, length)


def _md5(data: bytes | bytearray) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
