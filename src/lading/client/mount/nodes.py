"""Nodes of a mount: lookup of a path, and collections and listings that are loaded on demand.

A directory whose content is on the server answers `peek` from its cache, at once, from any thread;
`find` and `list` query the server and run in the event loop. Inside a collection everything is
known: its tree.

An entry is valid until an event reports a change, or until its time limit, as events can be lost. A
collection is loaded again only if its portable data hash has changed. A failed request is not
repeated for some seconds, so that with a silent server calls fail at once and not each after its
time limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import msgspec

from lading.client.api import ApiClient, Record
from lading.core.data import filetree
from lading.core.data.filetree import File, FileTree
from lading.core.errors import LadingError, NotFound
from lading.core.ids import is_pdh

Renew = Callable[[str], Awaitable[str]]
"""Returns a locator with a new signature for one whose signature the store refuses."""

# Seconds that a listing is valid without an event.
LISTING_LIFE = 15.0
# Seconds that a failure is remembered.
_FAILURE_LIFE = 3.0
# Bytes of manifest text whose trees are kept; beyond it the trees unused for longest are dropped.
_MOST_TEXT = 64 << 20
RECORD_NAME = ".arvados#collection"
_FIELDS = ("uuid", "portable_data_hash", "modified_at", "name")
Clock = Callable[[], float]


class Unknown(Exception):
    """The answer is not known without the server."""


@dataclass(frozen=True, slots=True)
class Text:
    """A small file that the mount generates."""

    content: bytes


class Directory(Protocol):
    """A directory whose names are on the server."""

    @property
    def modified(self) -> float:
        """Seconds since 1970."""
        ...

    @property
    def renew(self) -> Renew | None:
        """Renewal of signatures for the files below, if it is a collection."""
        ...

    def peek(self, name: str) -> Node | None:
        """The node with this name, None if there is none. Raises Unknown."""
        ...

    async def find(self, name: str) -> Node | None:
        """As `peek`, but asks the server if needed. Raises LadingError."""
        ...

    async def list(self) -> Mapping[str, Node]:
        """All names. Raises LadingError."""
        ...


Node = Directory | FileTree | File | Text


@dataclass(frozen=True, slots=True)
class MountPlace:
    """The end of a path. `modified` and `renew` are those of the collection or directory that
    contains it.
    """

    node: Node
    modified: float
    renew: Renew | None = None


def peek(root: Directory, path: Sequence[str]) -> MountPlace | None:
    """The node at a path with its context, None if there is none. Raises Unknown."""
    position = MountPlace(root, root.modified, root.renew)
    for name in path:
        node = position.node
        if isinstance(node, FileTree):
            below: Node | None = node.entries.get(name)
        else:
            below = None if isinstance(node, File | Text) else node.peek(name)
        if below is None:
            return None
        position = _step(position, below)
    return position


async def find(root: Directory, path: Sequence[str]) -> MountPlace | None:
    """As `peek`, but asks the server if needed. Raises LadingError."""
    position = MountPlace(root, root.modified, root.renew)
    for name in path:
        node = position.node
        if isinstance(node, FileTree):
            below: Node | None = node.entries.get(name)
        else:
            below = None if isinstance(node, File | Text) else await node.find(name)
        if below is None:
            return None
        position = _step(position, below)
    return position


def _step(above: MountPlace, node: Node) -> MountPlace:
    if isinstance(node, FileTree | File | Text):
        return MountPlace(node, above.modified, above.renew)
    return MountPlace(node, node.modified, node.renew)


Listing = Mapping[str, Node]


@dataclass(slots=True)
class Freshness:
    """Validity of an answer: until a time limit or an event; a failure is remembered for a short
    time.
    """

    clock: Clock
    life: float
    _until: float = 0.0
    _failure: LadingError | None = None
    expiries: int = 0
    """Times that the answer was invalidated."""

    @property
    def is_fresh(self) -> bool:
        """Whether the last answer is still valid."""
        return self._failure is None and self.clock() < self._until

    def expire(self) -> None:
        """Invalidate the answer."""
        self._until, self._failure = 0.0, None
        self.expiries += 1

    def renew(self, expiries: int) -> None:
        """Note a new answer; `expiries` is their number when it was asked for. One that was
        invalidated meanwhile may be that of before.
        """
        is_late = expiries != self.expiries
        self._until, self._failure = 0.0 if is_late else self.clock() + self.life, None

    def fail(self, error: LadingError) -> None:
        """Note a failure."""
        self._until, self._failure = self.clock() + _FAILURE_LIFE, error

    def check(self) -> None:
        """Raise the remembered failure, if any."""
        if self._failure is not None and self.clock() < self._until:
            raise self._failure


class Listed:
    """A directory whose entries `load` lists."""

    def __init__(
        self, load: Callable[[], Awaitable[Listing]], clock: Clock, *, life: float = LISTING_LIFE
    ) -> None:
        self.freshness = Freshness(clock, life)
        self.modified = time.time()
        self.renew: Renew | None = None
        self._load = load
        self._entries: Listing = {}
        self._turn = asyncio.Lock()

    def peek(self, name: str) -> Node | None:
        """See Directory."""
        if not self.freshness.is_fresh:
            raise Unknown
        return self._entries.get(name)

    async def find(self, name: str) -> Node | None:
        """See Directory."""
        return (await self.list()).get(name)

    async def list(self) -> Listing:
        """See Directory."""
        # One request at a time: other callers wait here and use its answer.
        async with self._turn:
            self.freshness.check()
            if not self.freshness.is_fresh:
                expiries = self.freshness.expiries
                try:
                    entries = await self._load()
                except LadingError as error:
                    self.freshness.fail(error)
                    raise
                # Programs that watch a directory compare its time of change.
                if entries.keys() != self._entries.keys():
                    self.modified = time.time()
                self._entries = entries
                self.freshness.renew(expiries)
            return self._entries


class MountedCollection:
    """A collection as a directory; `id` is its uuid or portable data hash."""

    def __init__(self, id: str, collections: MountedCollections) -> None:
        self.id = id
        self.modified = time.time()
        # The content of a portable data hash never changes.
        self.freshness = Freshness(
            collections.clock, float("inf") if is_pdh(id) else collections.life
        )
        self.weight = 0
        self._collections = collections
        self._pdh = ""
        self._tree = FileTree()
        self._record: Record = {}
        self._turn = asyncio.Lock()

    def peek(self, name: str) -> Node | None:
        """See Directory."""
        if not self.freshness.is_fresh:
            raise Unknown
        return self._entry(name)

    async def find(self, name: str) -> Node | None:
        """See Directory. Raises NotFound when the collection was deleted."""
        await self.ensure()
        return self._entry(name)

    async def list(self) -> Listing:
        """See Directory. Raises NotFound when the collection was deleted."""
        return (await self.tree()).entries

    async def tree(self) -> FileTree:
        """Its files. Raises as `list`."""
        await self.ensure()
        return self._tree

    async def renew(self, locator: str) -> str:
        """The locator of the same block with a new signature. Raises NotFound when the collection
        no longer has the block.
        """
        async with self._turn:
            await self._load(await self._collections.fetch(self.id))
        # By the hash alone: the signature, and other hints, are what has changed.
        for _, file in filetree.files(self._tree):
            for segment in file.segments:
                if segment.locator[:32] == locator[:32]:
                    return segment.locator
        raise NotFound(f"{locator[:32]}: collection {self.id} does not have this block any more")

    async def ensure(self) -> None:
        """Load the content if it is not valid. Raises NotFound, and the errors of the API."""
        async with self._turn:
            self.freshness.check()
            if not self.freshness.is_fresh:
                expiries = self.freshness.expiries
                try:
                    await self._look()
                except LadingError as error:
                    self.freshness.fail(error)
                    raise
                self.freshness.renew(expiries)
        self._collections.used(self)

    def forget(self) -> None:
        """Drop the tree; it is loaded again on the next call."""
        self.freshness.expire()
        self._pdh, self._tree, self.weight = "", FileTree(), 0

    async def _look(self) -> None:
        if self._pdh:
            record = await self._collections.fetch(self.id, select=_FIELDS)
            # A short answer without the manifest, which is read again only when the content is
            # another.
            if record["portable_data_hash"] == self._pdh:
                self._note(record)
                return
        await self._load(await self._collections.fetch(self.id))

    async def _load(self, record: Record) -> None:
        text = record.pop("manifest_text")
        # In a thread: parsing a large manifest takes seconds.
        self._tree, self.weight = await asyncio.to_thread(filetree.from_manifest, text), len(text)
        self._pdh = record["portable_data_hash"]
        self._note(record)

    def _note(self, record: Record) -> None:
        self._record = {**self._record, **record}
        # The content of a portable data hash never changes, whenever it is stored again.
        if not is_pdh(self.id):
            self.modified = seconds(record.get("modified_at"))

    def _entry(self, name: str) -> Node | None:
        if name == RECORD_NAME:
            return Text(msgspec.json.format(msgspec.json.encode(self._record), indent=2) + b"\n")
        return self._tree.entries.get(name)


class MountedCollections:
    """All collections used in a mount, by id; the trees that were unused for longest are
    dropped.
    """

    def __init__(
        self,
        api: ApiClient,
        *,
        clock: Clock = time.monotonic,
        life: float = LISTING_LIFE,
        most_text: int = _MOST_TEXT,
    ) -> None:
        self.api, self.clock, self.life = api, clock, life
        self._most_text = most_text
        self.modified = time.time()
        self._collections: OrderedDict[str, MountedCollection] = OrderedDict()

    def collection(self, id: str) -> MountedCollection:
        """The collection with this uuid or portable data hash, loaded or not."""
        found = self._collections.get(id)
        if found is None:
            found = self._collections[id] = MountedCollection(id, self)
        return found

    async def fetch(
        self, id: str, *, select: tuple[str, ...] = (*_FIELDS, "manifest_text")
    ) -> Record:
        """The record. Raises as ApiClient.get."""
        return await self.api.get("collections", id, select=select)

    def used(self, collection: MountedCollection) -> None:
        """Note the use of a collection, and drop old trees."""
        self._collections.move_to_end(collection.id)
        # Weight is the length of the manifest: the tree takes memory in proportion.
        total = sum(collection.weight for collection in self._collections.values())
        # The last one was used just now, and stays even if it is too large.
        for oldest in list(self._collections.values())[:-1]:
            if total <= self._most_text:
                return
            total -= oldest.weight
            oldest.forget()

    def expire(self, uuid: str = "") -> None:
        """Invalidate one collection; "" means all of them."""
        for collection in (self._collections.get(uuid),) if uuid else self._collections.values():
            if collection is not None and not is_pdh(collection.id):
                collection.freshness.expire()


def seconds(timestamp: object) -> float:
    """Seconds since 1970 of an API timestamp; 0 without one."""
    if not isinstance(timestamp, str) or not timestamp:
        return 0.0
    whole, _, fraction = timestamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
