"""Collections and listings, loaded when somebody looks, kept while they are true.

What is known is true until an event says that it changed, or until its time is over: events can be
lost. A collection is loaded anew only when its portable data hash is another. A question that
failed is not asked again for some seconds, so that a server that does not answer makes every look
fail at once and not each after its time limit.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

import msgspec

from lading.client.api import ApiClient, Record
from lading.client.mount.places import Node, Renew, Text, Unknown
from lading.core.data import filetree
from lading.core.data.filetree import Tree
from lading.core.errors import LadingError, NotFound
from lading.core.ids import is_pdh

LISTING_LIFE = 15.0
_FAILURE_LIFE = 3.0
_MOST_TEXT = 64 << 20
RECORD_NAME = ".arvados#collection"
_FIELDS = ("uuid", "portable_data_hash", "modified_at", "name")
Clock = Callable[[], float]
Listing = Mapping[str, Node]


@dataclass(slots=True)
class Freshness:
    """How long what was asked for holds: a time limit, an event, or a failure that is
    remembered.
    """

    clock: Clock
    life: float
    _until: float = 0.0
    _failure: LadingError | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether the last answer still holds."""
        return self._failure is None and self.clock() < self._until

    def expire(self) -> None:
        """The answer does not hold any more."""
        self._until, self._failure = 0.0, None

    def renew(self) -> None:
        """There is a new answer."""
        self._until, self._failure = self.clock() + self.life, None

    def fail(self, error: LadingError) -> None:
        """There was none."""
        self._until, self._failure = self.clock() + _FAILURE_LIFE, error

    def check(self) -> None:
        """Raises the failure that is remembered."""
        if self._failure is not None and self.clock() < self._until:
            raise self._failure


class Listed:
    """A directory that `load` lists."""

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
        async with self._turn:
            self.freshness.check()
            if not self.freshness.is_fresh:
                try:
                    entries = await self._load()
                except LadingError as error:
                    self.freshness.fail(error)
                    raise
                if entries.keys() != self._entries.keys():
                    self.modified = time.time()
                self._entries = entries
                self.freshness.renew()
            return self._entries


class Collection:
    """A collection as a directory; `id` is its uuid or portable data hash."""

    def __init__(self, id: str, library: Library) -> None:
        self.id = id
        self.modified = time.time()
        self.freshness = Freshness(library.clock, float("inf") if is_pdh(id) else library.life)
        self.weight = 0
        self._library = library
        self._pdh = ""
        self._tree = Tree()
        self._record: Record = {}
        self._turn = asyncio.Lock()

    def peek(self, name: str) -> Node | None:
        """See Directory."""
        if not self.freshness.is_fresh:
            raise Unknown
        return self._entry(name)

    async def find(self, name: str) -> Node | None:
        """See Directory. Raises NotFound when the collection is gone."""
        await self.ensure()
        return self._entry(name)

    async def list(self) -> Listing:
        """See Directory. Raises NotFound when the collection is gone."""
        await self.ensure()
        return self._tree.entries

    async def renew(self, locator: str) -> str:
        """The same block's locator with a new signature. Raises NotFound when the collection has it
        no more.
        """
        async with self._turn:
            await self._load(await self._library.fetch(self.id))
        for _, file in filetree.files(self._tree):
            for segment in file.segments:
                if segment.locator[:32] == locator[:32]:
                    return segment.locator
        raise NotFound(f"{locator[:32]}: collection {self.id} does not have this block any more")

    async def ensure(self) -> None:
        """Know what is in it now. Raises NotFound, and what the API raises."""
        async with self._turn:
            self.freshness.check()
            if not self.freshness.is_fresh:
                try:
                    await self._look()
                except LadingError as error:
                    self.freshness.fail(error)
                    raise
                self.freshness.renew()
        self._library.used(self)

    def forget(self) -> None:
        """Let the tree go; it is loaded again when somebody looks."""
        self.freshness.expire()
        self._pdh, self._tree, self.weight = "", Tree(), 0

    async def _look(self) -> None:
        if self._pdh:
            record = await self._library.fetch(self.id, select=_FIELDS)
            if record["portable_data_hash"] == self._pdh:
                self._note(record)
                return
        await self._load(await self._library.fetch(self.id))

    async def _load(self, record: Record) -> None:
        text = record.pop("manifest_text")
        self._tree, self.weight = await asyncio.to_thread(filetree.from_manifest, text), len(text)
        self._pdh = record["portable_data_hash"]
        self._note(record)

    def _note(self, record: Record) -> None:
        self._record = {**self._record, **record}
        # What a portable data hash names never changes, whoever stores it again and when.
        if not is_pdh(self.id):
            self.modified = seconds(record.get("modified_at"))

    def _entry(self, name: str) -> Node | None:
        if name == RECORD_NAME:
            return Text(msgspec.json.format(msgspec.json.encode(self._record), indent=2) + b"\n")
        return self._tree.entries.get(name)


class Library:
    """All collections that a mount has met, by id; the trees of those not used for longest are let
    go.
    """

    def __init__(
        self, api: ApiClient, *, clock: Clock = time.monotonic, life: float = LISTING_LIFE
    ) -> None:
        self.api, self.clock, self.life = api, clock, life
        self.modified = time.time()
        self._collections: OrderedDict[str, Collection] = OrderedDict()

    def collection(self, id: str) -> Collection:
        """The collection with this uuid or portable data hash, looked at or not."""
        found = self._collections.get(id)
        if found is None:
            found = self._collections[id] = Collection(id, self)
        return found

    async def fetch(
        self, id: str, *, select: tuple[str, ...] = (*_FIELDS, "manifest_text")
    ) -> Record:
        """The record. Raises as ApiClient.get."""
        return await self.api.get("collections", id, select=select)

    def used(self, collection: Collection) -> None:
        """Somebody looked at it."""
        self._collections.move_to_end(collection.id)
        total = sum(one.weight for one in self._collections.values())
        for one in list(self._collections.values())[:-1]:
            if total <= _MOST_TEXT:
                return
            total -= one.weight
            one.forget()

    def expire(self, uuid: str = "") -> None:
        """The collection may have changed; "" is all of them."""
        for one in (self._collections.get(uuid),) if uuid else self._collections.values():
            if one is not None and not is_pdh(one.id):
                one.freshness.expire()


def seconds(timestamp: object) -> float:
    """Seconds since 1970 of an API timestamp; 0 for none."""
    if not isinstance(timestamp, str) or not timestamp:
        return 0.0
    whole, _, fraction = timestamp.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}+00:00").timestamp() + float(f"0.{fraction or 0}")
