"""Fetches the inputs of a task; each becomes the mount of a collection.

Inputs are received in their order, the objects of a directory a few at a time. An object that is
stored already is not received again: the answer of its server says so by the validator.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from lading.client.files.collections import BlockSink, CollectionWriter
from lading.core.errors import LadingError, NotFound
from lading.core.quantities import size as size_text
from lading.core.tes.document import DIRECTORY
from lading.core.tes.document_shapes import objects, string
from lading.core.tes.input_mounts import as_copy
from lading.core.tes.locations import shown
from lading.core.tes.transfers import ObjectFacts, TaskTransfer, is_fetched, object_key
from lading.core.values import JsonObject
from lading.process.concurrency import together
from lading.tes.transfers.endpoints import ObjectSource, SourceListing
from lading.tes.transfers.fetching import FetchedObject, ObjectFetch, TransferRules
from lading.tes.transfers.input_store import InputStore
from lading.tes.transfers.servers import FoundSource, Servers

# Objects of a directory that are received at a time.
_TOGETHER: Final = 4
Note = Callable[[str], None]
"""Takes a sentence on what goes on."""
_Advance = Callable[[int, int | None], None]


class TransferFailed(LadingError):
    """An input could not be fetched, or an output not delivered: the task ends."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFetcher:
    """Fetches the inputs of tasks of the user with the uuid `user`."""

    servers: Servers
    store: InputStore
    blocks: BlockSink
    rules: TransferRules
    user: str

    async def fetch_all(self, transfer: TaskTransfer, note: Note) -> JsonObject:
        """The mounts of all inputs of a task that come from URLs, by their paths. Raises
        TransferFailed for the first input that cannot be fetched.
        """
        inputs = [declared for declared in objects(transfer.task, "inputs") if is_fetched(declared)]
        mounts: JsonObject = {}
        for number, declared in enumerate(inputs, 1):
            step = f"fetching input {number} of {len(inputs)}: {shown(string(declared, 'url'))}"
            note(step)
            path = string(declared, "path").rstrip("/")
            mounts[path] = as_copy(await self._mount(declared, step, note))
        return mounts

    async def _mount(self, declared: JsonObject, step: str, note: Note) -> JsonObject:
        def advance(done: int, size: int | None) -> None:
            total = f" of {size_text(size)}" if size is not None else ""
            note(f"{step}: {size_text(done)}{total}")

        url = string(declared, "url")
        try:
            source = await self._find(url, is_directory=declared["type"] == DIRECTORY)
            if isinstance(source.content, SourceListing):
                path, hash = (
                    "",
                    await self._directory(source.content, url, source.namespace, advance),
                )
            else:
                path, hash = source.name, await self._file(source.content, url, source, advance)
        except LadingError as error:
            at = "" if shown(url) in error.message else f"{shown(url)}: "
            raise TransferFailed(
                f"input {string(declared, 'path')}: {at}{error.message}"
            ) from error
        return {"kind": "collection", "portable_data_hash": hash, "path": path}

    async def _find(self, url: str, *, is_directory: bool) -> FoundSource:
        return await self.servers.find_source(url, is_directory=is_directory)

    async def _file(
        self, source: ObjectSource, url: str, found_source: FoundSource, advance: _Advance
    ) -> str:
        stored = ""
        namespace = self.user if found_source.is_personal else found_source.namespace

        async def is_known(facts: ObjectFacts) -> bool:
            nonlocal stored
            if facts.validator:
                key = object_key(url, facts.validator, namespace=namespace)
                stored = await self.store.find(key, self.user) or ""
            return bool(stored)

        fetch = ObjectFetch(source, self.blocks, self.rules, note=advance)
        fetched = await fetch.run_unless(is_known)
        if fetched is None:
            return stored
        validator = fetched.facts.validator or f"content {fetched.sha256}"
        key = object_key(url, validator, namespace=namespace)
        async with CollectionWriter(self.blocks) as writer:
            await _add(writer, found_source.name, fetched)
            return await self.store.save(key, shown(url), writer, self.user)

    async def _directory(
        self, listing: SourceListing, url: str, namespace: str, advance: _Advance
    ) -> str:
        if not listing.files and not listing.directories:
            raise NotFound(f"{shown(url)}: there is nothing below it")
        key = object_key(url, listing.validator, namespace=namespace)
        if (stored := await self.store.find(key, self.user)) is not None:
            return stored
        total = 0
        async with CollectionWriter(self.blocks) as writer:
            for path in listing.directories:
                writer.add_directory(path)
            names = sorted(listing.files)
            for start in range(0, len(names), _TOGETHER):
                chunk = names[start : start + _TOGETHER]
                several = await self._objects([listing.files[name] for name in chunk])
                for name, fetched in zip(chunk, several, strict=True):
                    await _add(writer, name, fetched)
                    total += fetched.size
                advance(total, None)
            return await self.store.save(key, shown(url), writer, self.user)

    async def _objects(self, sources: list[ObjectSource]) -> list[FetchedObject]:
        objects_by_number: dict[int, FetchedObject] = {}

        async def receive(number: int, source: ObjectSource) -> None:
            objects_by_number[number] = await ObjectFetch(source, self.blocks, self.rules).run()

        await together(*(receive(number, source) for number, source in enumerate(sources)))
        return [objects_by_number[number] for number in range(len(sources))]


async def _add(writer: CollectionWriter, name: str, fetched: FetchedObject) -> None:
    if fetched.file is not None:
        writer.add_tree(name, fetched.file)
    else:
        await writer.add_bytes(name, fetched.content)
