"""Protocols of the servers that inputs of tasks come from and outputs go to, and the records that
are exchanged with them.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from typing import Protocol

from lading.client.blocks import BlockClient
from lading.client.files.downloads import read_file
from lading.core.data.filetree import File
from lading.core.tes.transfers import ObjectFacts
from lading.net.http_connections import Outgoing


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenObject:
    """An object that is being received from the byte `start` on."""

    facts: ObjectFacts
    start: int
    pieces: AsyncIterator[bytes]


class ObjectSource(Protocol):
    """One object of a server."""

    @property
    def name(self) -> str:
        """Its address in messages, without secrets."""

    def open(
        self, start: int, previous: ObjectFacts | None
    ) -> AbstractAsyncContextManager[OpenObject]:
        """Receive the object from the byte `start` on. It begins at byte 0 where the server offers
        no parts, and where the object has changed since `previous`.

        Raises PassingFault for faults that may pass, else the error that ends the transfer.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceListing:
    """A directory of a server: the objects below it by relative path, the empty directories, and a
    validator of the whole, "" for none.
    """

    files: dict[str, ObjectSource]
    directories: tuple[str, ...] = ()
    validator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingFile:
    """A file of the store that is sent to a server, which may read it several times. `key` names
    the file in the task, for temporary names.
    """

    blocks: BlockClient
    file: File
    key: str

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.file.size

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The content, in pieces of at most a block. Raises Unavailable, Corrupt."""
        async with aclosing(read_file(self.blocks, self.file)) as pieces:
            async for piece in pieces:
                yield piece


class FileTarget(Protocol):
    """One place that a file can be sent to."""

    async def send(self, file: OutgoingFile) -> str:
        """Send the file; its checksum, as `sha256:HEX`. Others see the whole file or none of it.

        Raises PassingFault for faults that may pass, else the error that ends the transfer.
        """


class BodySender:
    """Sends the content of a file as the body of a request, and computes its checksums."""

    def __init__(self, file: OutgoingFile) -> None:
        self._file = file
        self.sha256 = hashlib.sha256()
        self.md5 = hashlib.md5(usedforsecurity=False)

    async def __call__(self, out: Outgoing) -> None:
        """Send the body; again for a request that is repeated."""
        self.sha256 = hashlib.sha256()
        self.md5 = hashlib.md5(usedforsecurity=False)
        async with aclosing(self._file.pieces()) as pieces:
            async for piece in pieces:
                self.sha256.update(piece)
                self.md5.update(piece)
                await out.write(piece)
