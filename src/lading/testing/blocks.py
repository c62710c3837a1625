"""Blocks for tests: a volume in memory with faults, a block store, collections that name blocks."""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lading.blobs.app import make_app
from lading.blobs.collector import Hit, Named
from lading.blobs.volume import Buffer, Discarded, Space, Stored
from lading.blobs.volume_set import VolumeMount, VolumeSet
from lading.client.blocks import BlockClient
from lading.client.files.downloads import Progress
from lading.client.files.uploads import Upload
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.config.site import Config
from lading.config.storage import Collections
from lading.core.data.confirmation import CopyCount
from lading.core.errors import Conflict, Corrupt, Full, NotFound, Unavailable
from lading.testing.asgi import AsgiTransport

TOKEN = "v2/zzzzz-gj3su-000000000000000/secret"


@dataclass(frozen=True, slots=True)
class _Block:
    data: bytes
    at: int


class MemoryVolume:
    """Implements lading.blobs.volume.Volume.

    `capacity` is in bytes, `failures` the share of calls that fail, `now_ns` the time that puts are
    given; it moves on by a nanosecond with each.
    """

    def __init__(self, *, capacity: int = 1 << 30, failures: float = 0.0, seed: int = 0) -> None:
        self.now_ns = 0
        self.failures = failures
        self.quarantined: dict[str, bytes] = {}
        self._blocks: dict[str, _Block] = {}
        self._bin: dict[tuple[str, int], _Block] = {}
        self.capacity = capacity
        self._random = random.Random(seed)

    @property
    def device(self) -> str:
        """Name of this object, as of a device."""
        return f"memory {id(self)}"

    async def put(self, hash: str, data: Buffer) -> None:
        """Keep a block."""
        self._fail()
        if hash not in self._blocks and self._free() < len(data):
            raise Full(f"{hash}: no room")
        self._blocks[hash] = _Block(bytes(data), self._tick())

    async def get(self, hash: str, into: memoryview | None = None) -> Buffer:
        """The block, verified."""
        self._fail()
        data = self._find(hash).data
        if into is not None and len(data) > len(into):
            raise NotFound(f"{hash}: is larger")
        if hashlib.md5(data, usedforsecurity=False).hexdigest() != hash:
            raise Corrupt(f"{hash}: rotten")
        if into is None:
            return data
        into[: len(data)] = data
        return into[: len(data)]

    async def head(self, hash: str) -> Stored:
        """Size and time of a block."""
        self._fail()
        found = self._find(hash)
        return Stored(hash, len(found.data), found.at)

    async def index(self, prefix: str = "") -> AsyncGenerator[Stored]:
        """Blocks by prefix."""
        self._fail()
        for hash in sorted(self._blocks):
            if hash.startswith(prefix):
                found = self._blocks[hash]
                yield Stored(hash, len(found.data), found.at)

    async def space(self) -> Space:
        """Total and free bytes."""
        self._fail()
        return Space(self.capacity, self._free())

    async def close(self) -> None:
        """Do nothing: the volume holds no resources."""

    async def touch(self, hash: str) -> None:
        """Have a block count as put now."""
        self._fail()
        self._blocks[hash] = replace(self._find(hash), at=self._tick())

    async def discard(self, hash: str, mtime_ns: int) -> None:
        """Move a block into the bin."""
        self._bin[hash, self._tick()] = self._take(hash, mtime_ns)

    async def restore(self, hash: str) -> None:
        """Bring a block back."""
        self._fail()
        for key in sorted(self._bin):
            if key[0] == hash:
                self._blocks[hash] = replace(self._bin.pop(key), at=self._tick())
                return
        raise NotFound(f"{hash}: not in the bin")

    async def discarded(self) -> AsyncGenerator[Discarded]:
        """All objects in the bin."""
        self._fail()
        for (hash, at), block in sorted(self._bin.items()):
            yield Discarded(hash, len(block.data), at)

    async def delete(self, hash: str, discarded_ns: int) -> None:
        """Remove a block for good."""
        self._fail()
        if self._bin.pop((hash, discarded_ns), None) is None:
            raise NotFound(f"{hash}: not in the bin")

    async def quarantine(self, hash: str, mtime_ns: int) -> None:
        """Take a damaged block out of use."""
        self.quarantined[hash] = self._take(hash, mtime_ns).data

    def rot(self, hash: str) -> None:
        """Change one bit of a block behind everyone's back."""
        found = self._find(hash)
        self._blocks[hash] = replace(found, data=bytes([found.data[0] ^ 1]) + found.data[1:])

    def _take(self, hash: str, mtime_ns: int) -> _Block:
        self._fail()
        if self._find(hash).at != mtime_ns:
            raise Conflict(f"{hash}: was put again")
        return self._blocks.pop(hash)

    def _find(self, hash: str) -> _Block:
        try:
            return self._blocks[hash]
        except KeyError:
            fault = Corrupt if hash in self.quarantined else NotFound
            raise fault(f"{hash}: no such block") from None

    def _free(self) -> int:
        return max(0, self.capacity - sum(len(block.data) for block in self._blocks.values()))

    def _tick(self) -> int:
        self.now_ns += 1
        return self.now_ns

    def _fail(self) -> None:
        if self._random.random() < self.failures:
            raise Unavailable("the volume failed")


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
    """The real service over a volume in memory: `volume`, `app`, `transport` and a `client` that
    never waits to try again.
    """

    def __init__(self, volume: MemoryVolume | None = None, *, signing_key: str = "key") -> None:
        self.volume = volume or MemoryVolume()
        config = Config(Collections=Collections(BlobSigningKey=signing_key))
        mounts = VolumeSet(
            [VolumeMount(uuid="zzzzz-nyw5e-000000000000000", volume=self.volume, copies=None)]
        )
        self.app = make_app(mounts, config, clock=time.time, check_token=_any_token)
        self.transport: Transport = AsgiTransport(self.app)
        self.client = self.over(self.transport)

    def over(self, transport: Transport, *, token: str = TOKEN) -> BlockClient:
        """A client over another transport to this store."""
        return BlockClient(transport, token, retry=RetryPolicy(attempts=50), sleep=_at_once)


@dataclass
class MemoryReferences:
    """Implements lading.blobs.collector.References; `on_changed` is called when changes are asked
    for.
    """

    named: dict[str, Named] = field(default_factory=dict)
    new: set[str] = field(default_factory=set)
    fails: bool = False
    is_read_only: bool = False
    recorded_at: float = 0.0
    on_changed: Callable[[], None] = lambda: None

    def save(
        self, name: str, *hashes: str, copies: int = 1, classes: Sequence[str] = ("default",)
    ) -> None:
        """Make or change a collection."""
        self.named[name] = Named(hashes, copies, classes, name)
        self.new.add(name)

    async def all(self) -> AsyncGenerator[Named]:
        """Every collection."""
        if self.fails:
            raise Unavailable("no database")
        for named in list(self.named.values()):
            yield named

    async def changed(self, since: float) -> AsyncGenerator[Named]:
        """Collections that were made or changed since `new` was emptied."""
        self.on_changed()
        for name in sorted(self.new) if since else ():
            yield self.named[name]

    async def record(self, counts: Sequence[tuple[Named, CopyCount]], *, at: float) -> int:
        """Keep the counts. Raises Unavailable if `is_read_only`."""
        if self.is_read_only:
            raise Unavailable("read-only")
        self.recorded_at = at
        for named, count in counts:
            self.named[named.uuid] = replace(self.named[named.uuid], recorded=count)
        return len(counts)

    async def naming(self, hash: str) -> list[Hit]:
        """The collections that name a block, each with a file of its own name."""
        return [
            Hit(name, name, ["file"]) for name, named in self.named.items() if hash in named.hashes
        ]
