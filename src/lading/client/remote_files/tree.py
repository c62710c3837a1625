"""The files of a site as one tree of names: listed, read, written, copied, moved and removed.

The trees of collections, and what names lead to, are remembered for `life` seconds, and until this
client changes them. A change is durable when its call returns. Copies and moves are made by
reference on the server.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from typing import Final, Literal

import msgspec

from lading.client.api import ApiClient, Record
from lading.client.block_cache import BlockCache
from lading.client.blocks import BlockClient
from lading.client.mount.nodes import MountedCollection, MountedCollections, seconds
from lading.client.remote_files.addresses import join, parent_of, plain_path
from lading.client.remote_files.block_reading import RangeReader
from lading.client.remote_files.block_writing import BlockWriter
from lading.client.remote_files.changes import Change, CollectionChanges
from lading.client.remote_files.faults import (
    FileIsThere,
    IsDirectory,
    IsNoDirectory,
    NoSuchFile,
    NotPermitted,
)
from lading.client.remote_files.places import Locations, StoredPlace
from lading.core.data import filetree, tree_changes
from lading.core.data.filetree import File, FileTree, Node
from lading.core.errors import Conflict, Forbidden, Invalid, NotFound
from lading.core.ids import EMPTY_PDH, is_pdh

LIFE: Final = 2.0
"""Seconds for which an answer is remembered."""
CACHE: Final = 256 << 20
"""Bytes of blocks that are kept in memory."""


class TreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A file or directory: its path below the home or from a uuid on, its size in bytes, and the
    time of its change in seconds since 1970, 0.0 if unknown. `content` is the same for the same
    content, "" for a directory.
    """

    path: str
    kind: Literal["file", "directory"]
    size: int = 0
    modified: float = 0.0
    content: str = ""
    uuid: str = ""
    """That of a project or collection."""

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.path.rpartition("/")[2]


class RemoteFiles:
    """The files that one token reads and writes. Close it in its event loop."""

    def __init__(
        self,
        api: ApiClient,
        blocks: BlockClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        life: float = LIFE,
        cache: int = CACHE,
    ) -> None:
        self._api, self.blocks = api, blocks
        self.locations = Locations(api, clock=clock, life=life)
        self._collections = MountedCollections(api, clock=clock, life=life)
        self._cache = BlockCache(blocks, keep_bytes=cache)
        self._changes = CollectionChanges(api)
        self._making = asyncio.Lock()

    async def close(self) -> None:
        """Cancel what goes on."""
        await self._changes.close()
        await self._cache.close()

    def expire(self) -> None:
        """Forget what names lead to, and the files of collections."""
        self.locations.expire()
        self._collections.expire()

    # Looking.

    async def entry(self, address: str) -> TreeEntry:
        """The file or directory at an address. Raises NoSuchFile."""
        path, location = plain_path(address), await self.locations.find(address)
        if location.is_project:
            return TreeEntry(path=path, kind="directory", uuid=location.owner)
        collection, node = await self._node(location, address)
        uuid = "" if location.path else location.collection
        return _entry(path, node, collection.modified, uuid)

    async def entries(self, address: str) -> list[TreeEntry]:
        """The entries of a directory by name; of a file, itself. Raises NoSuchFile."""
        path, location = plain_path(address), await self.locations.find(address)
        if location.is_project:
            records = await self.locations.records(location.owner)
            return sorted(_listed(path, records), key=lambda entry: entry.path)
        collection, node = await self._node(location, address)
        if isinstance(node, File):
            return [_entry(path, node, collection.modified, "")]
        return [
            _entry(join(path, name), node.entries[name], collection.modified, "")
            for name in sorted(node.entries)
        ]

    async def walk(self, address: str) -> list[TreeEntry]:
        """All entries below a directory, of projects too, a directory before its entries."""
        entries: list[TreeEntry] = []
        for entry in await self.entries(address):
            if entry.path == plain_path(address):
                continue
            entries.append(entry)
            if entry.kind == "directory":
                entries += await self.walk(entry.path)
        return entries

    # Reading.

    async def reader(self, address: str) -> RangeReader:
        """A reader of the file as it is now. Raises NoSuchFile, IsDirectory."""
        collection, file = await self._file(address)
        return RangeReader(file, self._cache, collection.renew)

    async def read(self, address: str, start: int = 0, end: int | None = None) -> bytes:
        """The bytes of a file from `start` up to, not including, `end`; negative ones count from
        its end. Raises as `reader`.
        """
        reader = await self.reader(address)
        first, stop, _ = slice(start, end).indices(reader.size)
        return await reader.read(first, stop)

    async def stored_file(self, address: str) -> File:
        """The stored file, for `files.downloads`. Raises as `reader`."""
        return (await self._file(address))[1]

    # Writing.

    async def writer(
        self, address: str, *, appends: bool = False, exclusive: bool = False
    ) -> FileWriter:
        """A writer of a file, which is there when it is committed; `appends`: behind its present
        content. `exclusive`: raises FileIsThere if it is there, then or at the commit. Raises
        IsDirectory, IsNoDirectory, NotPermitted.
        """
        location = await self.locations.find(address)
        node = await self._present(location)
        _check_target(location, address, node)
        if exclusive and node is not None:
            raise FileIsThere(f"{plain_path(address)}: is there already")
        before = node if appends and isinstance(node, File) else File()
        return FileWriter(self, address, BlockWriter(self.blocks.put), before, exclusive=exclusive)

    async def write(
        self, address: str, data: bytes | bytearray | memoryview, *, exclusive: bool = False
    ) -> None:
        """Store a file with these bytes, durable at the return. Raises as `writer`."""
        writer = await self.writer(address, exclusive=exclusive)
        try:
            await writer.write(data)
            await writer.commit()
        finally:
            await writer.abort()

    async def put(self, address: str, file: File, *, exclusive: bool = False) -> None:
        """Have a file at an address that is made of stored blocks. Raises as `writer`."""
        location = await self.locations.find(address)

        def check(tree: FileTree) -> None:
            if filetree.find(tree, location.path) is not None:
                raise FileIsThere(f"{plain_path(address)}: is there already")

        _check_target(location, address, await self._present(location))
        change = Change(files={location.path: file}, check=check if exclusive else None)
        await self._change(await self._collection_uuid(location), change)

    async def make_directory(
        self, address: str, *, parents: bool = True, exist_ok: bool = False
    ) -> None:
        """Make a directory, or a collection where the name of one is missing. Raises FileIsThere,
        NoSuchFile without `parents`, IsNoDirectory.
        """
        location = await self.locations.find(address)
        node = await self._present(location)
        if location.is_project or node is not None:
            if exist_ok and not isinstance(node, File):
                return
            raise FileIsThere(f"{plain_path(address)}: is there already")
        if not parents and location.path:
            await self.entry(parent_of(plain_path(address)))
        uuid = await self._collection_uuid(location)
        if not location.path:
            return

        def check(tree: FileTree) -> None:
            # In the same call: a directory that others have filled meanwhile must not be emptied.
            if filetree.find(tree, location.path) is not None:
                raise FileIsThere(f"{plain_path(address)}: is there already")

        try:
            await self._change(uuid, Change(sources={location.path: EMPTY_PDH}, check=check))
        except FileIsThere:
            if not exist_ok or (await self.entry(address)).kind == "file":
                raise

    # Removing, copying, moving.

    async def remove(self, address: str, *, recursive: bool = False) -> None:
        """Remove a file, or a directory that is empty unless `recursive`; a collection goes to the
        trash. Raises NoSuchFile, IsDirectory, NotPermitted for a project.
        """
        path, location = plain_path(address), await self.locations.find(address)
        if location.is_project:
            raise NotPermitted(f"{path or 'home'}: is a project; see 'lading project trash'")
        _, node = await self._node(location, address)

        def check(tree: FileTree) -> None:
            present = filetree.find(tree, location.path)
            if isinstance(present, FileTree) and present.entries:
                raise IsDirectory(f"{path}: is a directory that is not empty")

        is_alone = isinstance(node, FileTree) and not recursive
        if is_alone and isinstance(node, FileTree) and node.entries:
            raise IsDirectory(f"{path}: is a directory that is not empty")
        _check_writable(location, path)
        if location.path:
            change = Change(sources={location.path: ""}, check=check if is_alone else None)
            await self._change(location.collection, change)
            return
        await self._api.delete("collections", location.collection)
        self.expire()

    async def remove_file(self, address: str) -> None:
        """Remove a file. Raises NoSuchFile, IsDirectory, NotPermitted."""
        if (await self.entry(address)).kind == "directory":
            raise IsDirectory(f"{plain_path(address)}: is a directory")
        await self.remove(address)

    async def copy(self, source: str, target: str, *, exclusive: bool = False) -> None:
        """Copy a file or directory, by reference; a file at the target is replaced. Raises as
        `writer`, and NoSuchFile.
        """
        await self._transfer(source, target, exclusive=exclusive)

    async def move(self, source: str, target: str, *, exclusive: bool = False) -> None:
        """Move a file or directory: in one collection at once, else copied and then removed, unless
        it was changed meanwhile (Conflict). Raises as `copy`.
        """
        await self._transfer(source, target, moves=True, exclusive=exclusive)

    async def _transfer(
        self, source: str, target: str, *, moves: bool = False, exclusive: bool = False
    ) -> None:
        origin, goal = await asyncio.gather(
            self.locations.find(source), self.locations.find(target)
        )
        if origin.is_project:
            raise NotPermitted(f"{plain_path(source)}: is a project; copy its collections")
        _, node = await self._node(origin, source)
        present = await self._present(goal)
        if isinstance(node, File):
            _check_target(goal, target, present)
        else:
            _check_directory_target(goal, target, present)
        if exclusive and present is not None:
            raise FileIsThere(f"{plain_path(target)}: is there already")
        is_same = goal.collection == origin.collection
        if is_same and f"{goal.path}/".startswith(f"{origin.path}/"):
            if goal.path == origin.path:
                return
            raise Invalid(f"{plain_path(source)}: cannot be copied or moved into itself")
        uuid = await self._collection_uuid(goal)
        if is_same:
            sources = {goal.path: f"current/{origin.path}"}
            sources |= {origin.path: ""} if moves else {}
            await self._change(uuid, Change(sources=sources))
            return
        record = await self._api.get(
            "collections", origin.collection, select=("portable_data_hash",)
        )
        content = f"{record['portable_data_hash']}/{origin.path}".rstrip("/")
        await self._change(uuid, Change(sources={goal.path: content}))
        if moves:
            await self._take_away(origin, source, node)

    async def _take_away(self, origin: StoredPlace, source: str, node: Node) -> None:
        if not origin.path:
            await self.remove(source, recursive=True)
            return

        def check(tree: FileTree) -> None:
            present = filetree.find(tree, origin.path)
            if present is None or tree_changes.diff(
                FileTree({"node": present}), FileTree({"node": node})
            ):
                raise Conflict(
                    f"{plain_path(source)}: was changed while it was moved; "
                    "it was copied, and is still there"
                )

        await self._change(origin.collection, Change(sources={origin.path: ""}, check=check))

    # Inside.

    async def _file(self, address: str) -> tuple[MountedCollection, File]:
        location = await self.locations.find(address)
        if location.is_project:
            raise IsDirectory(f"{plain_path(address) or 'home'}: is a project")
        collection, node = await self._node(location, address)
        if isinstance(node, FileTree):
            raise IsDirectory(f"{plain_path(address)}: is a directory")
        return collection, node

    async def _node(self, location: StoredPlace, address: str) -> tuple[MountedCollection, Node]:
        """The collection of a location, and the node at its path. Raises NoSuchFile."""
        path = plain_path(address)
        if not location.collection:
            raise NoSuchFile(f"{path}: no such file or directory")
        collection = self._collections.collection(location.collection)
        try:
            tree = await collection.tree()
        except NotFound as error:
            self.locations.expire()
            raise NoSuchFile(f"{path}: no such file or directory") from error
        node = filetree.find(tree, location.path)
        if node is None:
            raise NoSuchFile(f"{path}: no such file or directory")
        return collection, node

    async def _present(self, location: StoredPlace) -> Node | None:
        """The node at a location, None where there is none. Raises IsNoDirectory where a file is in
        the way.
        """
        if not location.collection:
            return None
        _, tree = await self._node(StoredPlace(collection=location.collection), location.collection)
        node: Node | None = tree
        for name in filetree.split_path(location.path):
            if isinstance(node, File):
                raise IsNoDirectory(f"{location.path}: a file is in the way")
            node = node.entries.get(name) if node is not None else None
        return node

    async def _collection_uuid(self, location: StoredPlace) -> str:
        """The uuid of the collection of a location, which is made where it is missing."""
        if location.collection:
            _check_writable(location, location.collection)
            return location.collection
        # One at a time: files that are written at once into a new collection make it once.
        async with self._making:
            uuid = await self.locations.named(location.owner, location.missing)
            if not uuid:
                try:
                    record = await self._api.create(
                        "collections", {"name": location.missing, "owner_uuid": location.owner}
                    )
                except Invalid:
                    # Somebody else has made it meanwhile.
                    uuid = await self.locations.named(location.owner, location.missing)
                    if not uuid:
                        raise
                else:
                    uuid = str(record["uuid"])
        return uuid

    async def _change(self, uuid: str, change: Change) -> None:
        try:
            await self._changes.apply(uuid, change)
        except Forbidden as error:
            raise NotPermitted(error.message) from error
        finally:
            self._collections.expire(uuid)


class FileWriter:
    """Writes one file, which appears at its address when it is committed. `abort` drops it; after
    the commit it does nothing.
    """

    def __init__(
        self,
        files: RemoteFiles,
        address: str,
        stream: BlockWriter,
        before: File,
        *,
        exclusive: bool = False,
    ) -> None:
        self._files, self._address, self._stream = files, address, stream
        self._before, self._exclusive = before, exclusive
        self.size = before.size
        """Bytes of the file so far."""

    async def write(self, data: bytes | bytearray | memoryview) -> None:
        """Add bytes at the end. Raises the errors of storing earlier ones."""
        await self._stream.write(data)
        self.size += memoryview(data).nbytes

    async def commit(self) -> None:
        """Have the file at its address, durable at the return. Raises as `RemoteFiles.writer`."""
        file = await self._stream.finish()
        whole = File(self._before.segments + file.segments)
        await self._files.put(self._address, whole, exclusive=self._exclusive)

    async def abort(self) -> None:
        """Drop what was written."""
        await self._stream.abort()


def _entry(path: str, node: Node, modified: float, uuid: str) -> TreeEntry:
    if isinstance(node, FileTree):
        return TreeEntry(path=path, kind="directory", modified=modified, uuid=uuid)
    return TreeEntry(
        path=path, kind="file", size=node.size, modified=modified, content=_content_of(node)
    )


def _content_of(file: File) -> str:
    """The same text for the same bytes in the same blocks, whoever reads them."""
    digest = hashlib.md5(usedforsecurity=False)
    for locator, offset, length in file.segments:
        # Signatures differ for each token.
        digest.update(f"{filetree.bare(locator)} {offset} {length}\n".encode())
    return digest.hexdigest()


def _listed(path: str, records: list[Record]) -> list[TreeEntry]:
    """The entries of a project, by the names by which they are found; of a project and a collection
    of one name, the project.
    """
    entries: dict[str, TreeEntry] = {}
    for record in records:
        name = str(record["name"] or "")
        if not name or "/" in name or name in (".", ".."):
            # By its uuid it is found.
            name = str(record["uuid"])
        if name not in entries:
            entries[name] = TreeEntry(
                path=join(path, name),
                kind="directory",
                modified=seconds(record["modified_at"]),
                uuid=str(record["uuid"]),
            )
    return list(entries.values())


def _check_target(location: StoredPlace, address: str, node: Node | None) -> None:
    """Raise where a file cannot be at a location."""
    path = plain_path(address)
    if location.is_project or not location.path:
        raise IsDirectory(f"{path or 'home'}: no place of a file; write PROJECT/COLLECTION/FILE")
    if isinstance(node, FileTree):
        raise IsDirectory(f"{path}: is a directory")
    _check_writable(location, path)


def _check_directory_target(location: StoredPlace, address: str, node: Node | None) -> None:
    """Raise where a directory cannot be at a location: an empty one is replaced."""
    path = plain_path(address)
    if isinstance(node, File):
        raise IsNoDirectory(f"{path}: is a file")
    if location.is_project or (isinstance(node, FileTree) and node.entries):
        raise FileIsThere(f"{path or 'home'}: is a directory that is not empty")
    _check_writable(location, path)


def _check_writable(location: StoredPlace, path: str) -> None:
    if is_pdh(location.collection):
        raise NotPermitted(
            f"{path}: a hash stands for content that cannot change; give the uuid of a collection"
        )
