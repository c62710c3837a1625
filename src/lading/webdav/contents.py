"""Contents of collections for the WebDAV server: cached trees and blocks, byte ranges, uploads.

- `CollectionCache`: the record is fetched for each request as the caller sees it, so that
  permissions, trash and changes take effect at once. The tree of files is cached by token and
  content: a large one takes time to parse, and its signatures belong to the token.
- `FileReader`: a read uses one piece of memory and one file descriptor: a block is streamed into a
  cache on disk, verified there and read in pieces, while the next block is fetched. Blocks are
  fetched with the token of the reader. A cached block is given to every reader with a signed
  locator from the API.
- `parse_ranges` (RFC 9110, 14): an invalid header and more than `MOST` ranges are ignored: the
  reader gets the whole file. Ranges that overlap or touch are merged, so that no byte is sent
  twice.
- `DavUpload`: uploads of any size; one block is filled while the previous one is stored. The number
  of large uploads at a time is limited to bound memory; others wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Final
from weakref import WeakValueDictionary

from lading.client.api import ApiClient, Record
from lading.client.blocks import BlockClient
from lading.client.caches.content_caches import BlockFiles
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.core import ids
from lading.core.bounded_memory import LruMap
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree, Node, Segment, bare
from lading.core.data.locator import EMPTY_HASH, MAX_BLOCK
from lading.core.errors import Corrupt, LadingError, NotFound, Unauthenticated, Unavailable
from lading.core.quantities import parse_time
from lading.core.records.schema import JSON

# Bytes read and sent at a time.
_PIECE: Final = 1 << 18
# Smaller reads take less time than a thread.
_SMALL: Final = 1 << 16
# Ranges in one request; merging and sending very many would cost more than the whole file.
MOST: Final = 64
# At most 18 digits: larger numbers are no positions in a file.
_ONE: Final = re.compile(r"([0-9]{0,18})-([0-9]{0,18})")
# A client waits: fewer and shorter attempts than in background work.
RETRY: Final = RetryPolicy(attempts=4, cap=1.0, give_up_after=20.0)
_FACTS: Final = (
    "uuid", "portable_data_hash", "modified_at", "current_version_uuid", "name", "properties",
)  # fmt: skip
# Seconds that a tree is cached; its signatures are valid much longer.
_LIFE: Final = 300.0
# Bytes of manifest text whose trees are cached.
_KEPT_TEXT: Final = 64 << 20
# Larger manifests are parsed in a thread.
_LARGE: Final = 1 << 18
# Bodies up to this size do not wait for a turn.
_NO_TURN: Final = 1 << 20
# Large uploads at a time; each holds two blocks of 64 MiB.
_AT_ONCE: Final = 4
# Most large uploads at a time with one token.
_OF_ONE: Final = 2
# Seconds of waiting for a turn.
_TURN: Final = 120.0


class FileReader:
    """Reads through one cache below `directory`, of at most `limit_bytes`, in pieces of at most
    `piece` bytes. Pieces of up to `small` bytes are read in the loop, others in a thread.
    """

    def __init__(
        self,
        transport: Transport,
        directory: Path,
        limit_bytes: int,
        *,
        piece: int = _PIECE,
        small: int = _SMALL,
    ) -> None:
        self._piece, self._small = piece, small
        self._transport = transport
        self._token: ContextVar[str] = ContextVar("token of the reader")
        self._files = BlockFiles(directory, limit_bytes, fetch=self._fetch)

    @asynccontextmanager
    async def reading(self, token: str) -> AsyncGenerator[Reading]:
        """Open a session that reads files with a token; consecutive reads of one block share the
        open file of the block.
        """
        # Blocks are fetched in tasks that are created later and inherit this context.
        self._token.set(token)
        found = Reading(self._files, piece=self._piece, small=self._small)
        try:
            yield found
        finally:
            await found.close()

    async def _fetch(self, locator: str, descriptor: int) -> None:
        await BlockClient(self._transport, self._token.get(), retry=RETRY).save(locator, descriptor)


class Reading:
    """One session: the open block and the block fetched ahead."""

    def __init__(self, files: BlockFiles, *, piece: int, small: int) -> None:
        self._files, self._piece, self._small = files, piece, small
        self._opens: OrderedDict[str, asyncio.Task[int]] = OrderedDict()

    async def read(self, file: File, span: Span) -> AsyncGenerator[bytes]:
        """The bytes of a range of a file, in pieces. Raises NotFound, Corrupt, Unavailable."""
        parts = _parts(file, span)
        for number, part in enumerate(parts):
            descriptor = await self._open(part.locator)
            # The next block is fetched while this one is sent.
            if number + 1 < len(parts):
                self._start(parts[number + 1].locator)
            at, end = part.offset, part.offset + part.length
            while at < end:
                piece = await self._read(descriptor, min(self._piece, end - at), at)
                if not piece:
                    raise Corrupt(f"{part.locator[:32]}: the file reaches beyond this block")
                yield piece
                at += len(piece)

    async def close(self) -> None:
        """Close the open block and cancel the fetch."""
        while self._opens:
            await _discard(self._opens.popitem()[1])

    async def _open(self, locator: str) -> int:
        task = self._start(locator)
        # Blocks before this one are not needed again: segments are read in order.
        while next(iter(self._opens)) != bare(locator):
            await _discard(self._opens.popitem(last=False)[1])
        # Shielded: the task is closed by `close`.
        return await asyncio.shield(task)

    def _start(self, locator: str) -> asyncio.Task[int]:
        name = bare(locator)
        if name not in self._opens:
            self._opens[name] = asyncio.create_task(self._files.open(locator), name=f"block {name}")
        return self._opens[name]

    async def _read(self, descriptor: int, size: int, at: int) -> bytes:
        if size <= self._small:
            return os.pread(descriptor, size, at)
        return await asyncio.to_thread(os.pread, descriptor, size, at)


async def _discard(task: asyncio.Task[int]) -> None:
    task.cancel()
    # A task that had a descriptor already gives it back here.
    with suppress(asyncio.CancelledError, LadingError, OSError):
        os.close(await task)


def _parts(file: File, span: Span) -> Sequence[Segment]:
    found, at = [], 0
    for segment in file.segments:
        start, end = max(span.start, at), min(span.end, at + segment.length)
        # Files without data refer to the empty block.
        if start < end and not segment.locator.startswith(EMPTY_HASH):
            found.append(Segment(segment.locator, segment.offset + start - at, end - start))
        at += segment.length
    return found


@dataclass(frozen=True, slots=True)
class Span:
    """Bytes from `start` to before `end`."""

    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start

    def header(self, size: int) -> str:
        """The Content-Range header of the range."""
        return f"bytes {self.start}-{self.end - 1}/{size}"


def parse_ranges(header: str | None, size: int) -> tuple[Span, ...] | None:
    """The ranges of a file of `size` bytes, in order; None for the whole file, empty if no range is
    satisfiable.
    """
    unit, _, text = (header or "").partition("=")
    parts = [part.strip() for part in text.split(",")]
    if unit.strip().lower() != "bytes" or len(parts) > MOST:
        return None
    found: list[Span] = []
    for part in parts:
        # A single malformed range makes the header invalid.
        match = _ONE.fullmatch(part)
        if (
            match is None
            or match.groups() == ("", "")
            or (all(match.groups()) and int(match[2]) < int(match[1]))
        ):
            return None
        span = _span(match[1], match[2], size)
        if len(span) > 0:
            found.append(span)
    return _joined(found)


# "-N" is the last N bytes.
def _span(first: str, last: str, size: int) -> Span:
    if not first:
        return Span(max(0, size - int(last)), size)
    start = min(int(first), size)
    return Span(start, max(start, min(size, int(last) + 1)) if last else size)


def _joined(spans: list[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for span in sorted(spans, key=lambda one: one.start):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    return tuple(joined)


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedCollection:
    """State of one collection; `modified` is None for a content, which never changes."""

    uuid: str
    pdh: str
    etag: str
    name: str
    tree: FileTree
    modified: datetime | None = None
    editable: bool = False
    properties: Mapping[str, JSON] = field(default_factory=dict[str, JSON])


@dataclass(frozen=True, slots=True)
class _Kept:
    tree: FileTree
    size: int
    until: float


class CollectionCache:
    """Opens collections through the API; `anonymous` is the token for requests without one, "" to
    refuse these.

    A manifest of more than `large` characters is parsed in a thread, and its tree is cached after a
    write.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        anonymous: str,
        clock: Callable[[], float] = time.monotonic,
        limit: int = _KEPT_TEXT,
        large: int = _LARGE,
    ) -> None:
        """`limit`: characters of the manifests whose trees are kept."""
        self.transport = transport
        self._large = large
        self._anonymous = anonymous
        self._clock = clock
        self._kept = LruMap[tuple[bytes, str], _Kept](limit)

    def token(self, token: str) -> str:
        """The given token or the anonymous one. Raises Unauthenticated without either."""
        found = token or self._anonymous
        if not found:
            raise Unauthenticated(
                "Not logged in: send a token, as a password of any user or 'Authorization: Bearer'"
            )
        return found

    def api(self, token: str) -> ApiClient:
        """A client of the API with a token."""
        return ApiClient(self.transport, token, retry=RETRY)

    async def open(self, collection: str, token: str) -> CachedCollection:
        """The present state of a collection. Raises NotFound, Unauthenticated, Forbidden,
        Unavailable.
        """
        record = await self._record(collection, token, _FACTS)
        # The hash of the token, so that tokens are not kept in memory by the cache.
        key = (hashlib.sha256(token.encode()).digest(), record["portable_data_hash"])
        tree = self._find(key)
        # The content is asked for in a second request only if it is not cached.
        if tree is None:
            record = await self._record(collection, token, (*_FACTS, "manifest_text"))
            text = record.pop("manifest_text")
            tree = await self._parse(text)
            # The content may have changed between both requests.
            self._keep((key[0], record["portable_data_hash"]), tree, len(text))
        present = record.get("current_version_uuid") == record["uuid"]
        return CachedCollection(
            uuid=record["uuid"],
            pdh=record["portable_data_hash"],
            etag=record.get("etag", ""),
            name=record.get("name") or record["uuid"],
            tree=tree,
            modified=parse_time(record["modified_at"]) if record.get("modified_at") else None,
            editable=ids.is_uuid(collection) and present,
            properties=record.get("properties") or {},
        )

    def note(self, token: str, pdh: str, tree: FileTree, *, like: CachedCollection) -> None:
        """Cache the tree after a change, as computed here.

        `like` is the changed collection: trees of small collections are not cached.
        """
        # Only large trees are worth keeping: small manifests are parsed at once.
        key = hashlib.sha256(token.encode()).digest()
        kept = self._kept.get((key, like.pdh))
        if kept is not None and kept.size > self._large:
            self._keep((key, pdh), tree, kept.size)

    async def _record(self, collection: str, token: str, select: tuple[str, ...]) -> Record:
        found = await self.api(token).get("collections", collection, select=select)
        if not isinstance(found.get("portable_data_hash"), str):
            raise NotFound(f"Path not found: {collection}")
        return found

    def _find(self, key: tuple[bytes, str]) -> FileTree | None:
        kept = self._kept.get(key)
        if kept is None or kept.until <= self._clock():
            return None
        return kept.tree

    def _keep(self, key: tuple[bytes, str], tree: FileTree, size: int) -> None:
        self._kept.put(key, _Kept(tree, size, self._clock() + _LIFE), size)

    async def _parse(self, text: str) -> FileTree:
        if len(text) > self._large:
            return await asyncio.to_thread(filetree.from_manifest, text)
        return filetree.from_manifest(text)


def tag_of(node: Node) -> str:
    """The entity tag of a file, without quotes: the same for the same blocks. "" for a
    directory.
    """
    if isinstance(node, FileTree):
        return ""
    digest = hashlib.md5(usedforsecurity=False)
    # Signatures differ for each token; the tag must not.
    for locator, offset, length in node.segments:
        digest.update(f"{filetree.bare(locator)} {offset} {length}\n".encode())
    return digest.hexdigest()


class DavUpload:
    """Stores request bodies as blocks of `block` bytes.

    `at_once` large bodies are taken in at a time; a further one waits `turn` seconds for its turn.
    """

    def __init__(
        self, *, block: int = MAX_BLOCK, at_once: int = _AT_ONCE, turn: float = _TURN
    ) -> None:
        self._block, self._turn = block, turn
        self._turns = asyncio.Semaphore(at_once)
        self._shares: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def store(
        self, blocks: BlockClient, body: AsyncIterable[bytes], *, length: int | None, holder: str
    ) -> File:
        """Store a body; return its file, whose blocks are durable.

        `length` is None if unknown; `holder` identifies the token.

        Raises Full, Unavailable, and the errors of an aborted body, whose blocks remain as garbage.
        """
        if length is not None and length <= _NO_TURN:
            return await _store(blocks, body, self._block)
        # The share first: uploads of one token must not wait in turns that others need.
        share = self._shares.setdefault(holder, asyncio.Semaphore(_OF_ONE))
        async with AsyncExitStack() as turns:
            try:
                async with asyncio.timeout(self._turn):
                    await turns.enter_async_context(share)
                    await turns.enter_async_context(self._turns)
            except TimeoutError as error:
                raise Unavailable("too many large files are coming in; try again later") from error
            return await _store(blocks, body, self._block)


async def _store(blocks: BlockClient, body: AsyncIterable[bytes], most: int) -> File:
    """The file of a body, in blocks of `most` bytes."""
    segments: list[Segment] = []
    flight: asyncio.Task[str] | None = None
    buffer = bytearray()
    sizes: list[int] = []

    async def launch() -> None:
        nonlocal flight, buffer
        # The previous block first: at most one is sent while the next is filled.
        await land()
        sizes.append(len(buffer))
        flight = asyncio.create_task(blocks.put(buffer), name="put block")
        buffer = bytearray()

    async def land() -> None:
        nonlocal flight
        if flight is not None:
            segments.append(Segment(await flight, 0, sizes[-1]))
            flight = None

    try:
        async for piece in body:
            view = memoryview(piece)
            while len(buffer) + len(view) >= most:
                taken = most - len(buffer)
                buffer += view[:taken]
                view = view[taken:]
                await launch()
            buffer += view
        if buffer:
            await launch()
        await land()
    finally:
        # Aborted: the blocks that are stored already are garbage.
        if flight is not None:
            flight.cancel()
            with suppress(asyncio.CancelledError, LadingError):
                await flight
    return File(tuple(segments))
