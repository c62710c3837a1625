"""Upload of local files as a collection; stored data is not sent again.

The hash of the content is computed first. If a readable collection has this hash, it is used. A
journal in the user's cache directory has the hashes and the blocks sent, so that an interrupted
upload continues.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import TypeAlias

import msgspec

from lading.client.api import ApiClient, Record
from lading.client.blocks import ANYHOW, BlockClient, Keeping
from lading.client.files.downloads import Progress
from lading.client.files.listing import LinkPolicy
from lading.client.files.upload_journal import UploadJournal, journal_path
from lading.client.files.uploads import Upload
from lading.client.servers.environment import cache_directory
from lading.core.data import filetree, manifest
from lading.core.data.raw_names import spell
from lading.core.errors import Forbidden, Invalid, NotFound

# Bytes of a manifest that are read at a time.
_PIECE = 1 << 20
# Characters of a manifest that is sent from memory.
_SHORT = 1 << 16
# Contents that one call asks for, and the records that it answers at most (the server's limit).
_ASKED, _PAGE = 100, 1000
_WISHES = ("storage_classes_desired", "replication_desired")
_FIELDS = (
    "uuid",
    "portable_data_hash",
    "name",
    "file_count",
    "file_size_total",
    "owner_uuid",
    *_WISHES,
)
Showing: TypeAlias = Callable[[str], AbstractContextManager[Progress | None]]
"""Opens a display of progress with a heading."""


class Deposit(msgspec.Struct, frozen=True, kw_only=True):
    """A stored collection; `was_there` if nothing was sent.

    `remarks` are lines about entries that were left out, or stored under another name.
    """

    uuid: str
    portable_data_hash: str
    name: str
    file_count: int
    file_size_total: int
    was_there: bool
    remarks: tuple[str, ...] = ()


def _unseen(_: str) -> AbstractContextManager[Progress | None]:
    return nullcontext()


class ContentSearch:
    """Finds stored collections by their content. Searches that begin while a call of the API is on
    its way share the next call.
    """

    def __init__(self, api: ApiClient) -> None:
        self._api = api
        self._turn = asyncio.Lock()
        self._awaited: set[str] = set()
        self._collections: dict[str, list[Record]] = {}
        self._searches = 0

    async def find(self, pdh: str) -> list[Record]:
        """The collections with this content, the oldest first; none for a token that may only
        store. Raises the errors of the API.
        """
        self._awaited.add(pdh)
        self._searches += 1
        try:
            async with self._turn:
                # The holder of the turn before may have asked for it.
                if pdh in self._awaited:
                    asked = [pdh, *islice(self._awaited - {pdh}, _ASKED - 1)]
                    # Before the call: a search that begins during it asks again.
                    self._awaited -= {*asked}
                    try:
                        self._collections |= await self._list(asked)
                    except BaseException:
                        # The other searches make a call of their own.
                        self._awaited |= {*asked}
                        raise
            return self._collections[pdh]
        finally:
            self._searches -= 1
            if not self._searches:
                self._awaited.clear()
                self._collections.clear()

    async def _list(self, hashes: Sequence[str]) -> dict[str, list[Record]]:
        try:
            rows = await self._api.list(
                "collections",
                filters=[["portable_data_hash", "in", hashes]],
                order=["created_at asc"],
                select=_FIELDS,
                limit=_PAGE,
            )
        except Forbidden:
            rows = []
        collections: dict[str, list[Record]] = {pdh: [] for pdh in hashes}
        if len(rows) == _PAGE and len(hashes) > 1:
            # There are more collections, perhaps all of one content.
            return {pdh: (await self._list([pdh]))[pdh] for pdh in hashes}
        for row in rows:
            collections[str(row["portable_data_hash"])].append(row)
        return collections


async def deposit(
    api: ApiClient,
    blocks: BlockClient,
    sources: Mapping[str, Path],
    *,
    name: str | None = None,
    label: str,
    keeping: Keeping = ANYHOW,
    project: str | None = None,
    links: LinkPolicy = LinkPolicy.FOLLOW,
    search: ContentSearch | None = None,
    progress: Showing = _unseen,
) -> Deposit:
    """Store files and directories, by their path in the collection, unless such a collection
    exists; return the collection.

    A `name`, a `project` and a `keeping` other than ANYHOW must agree with those of the existing
    collection. With such a `keeping` all blocks are sent, so that the store makes the copies.
    Raises Invalid naming a file that cannot be read, and as `BlockClient.put`.
    """
    replication = _replication(keeping)
    # The values on which the journal depends: locators are signed for one token and blocks are
    # stored with this replication.
    texts = (
        api.token,
        *(f"{field}={replication[field]}" for field in sorted(replication)),
        *(f"{path}={source.absolute()}" for path, source in sorted(sources.items())),
    )
    journal_file = journal_path(cache_directory(os.environ), *texts)
    with (
        UploadJournal(journal_file) as journal,
        Upload(sources, journal=journal, links=links) as upload,
    ):
        await upload.look()
        with progress(f"Hashing {label}") as report:
            pdh = await upload.hash(progress=report)
        collections = await (search or ContentSearch(api)).find(pdh)
        same = _same(collections, name=name, project=project, replication=replication)
        if same is not None:
            return _deposit(same, was_there=True, remarks=upload.remarks)
        # All blocks of a collection with this content are stored and only need to be referenced.
        # With a replication they are sent again.
        earlier = "" if replication else pdh if collections else journal.collection
        stored = await _stored_before(api, earlier)
        with progress(f"Storing {label}") as report:
            manifest_text = await upload.send(
                blocks.keeping(keeping), stored=stored, progress=report
            )
        owner = {} if project is None else {"owner_uuid": project}
        record = await _create(api, {"name": name or label, **owner, **replication}, manifest_text)
        journal.note_collection(record["uuid"], upload.keys)
        was_there = bool(collections) and not replication
        return _deposit(record, was_there=was_there, remarks=upload.remarks)


async def _create(api: ApiClient, fields: dict[str, object], pieces: Iterator[str]) -> Record:
    """Create a collection with a manifest in pieces, which is written to disk unless it is
    short.
    """
    begun = ""
    while len(begun) <= _SHORT:
        if (piece := next(pieces, None)) is None:
            attributes = {**fields, "manifest_text": begun}
            return await api.create(
                "collections", attributes, ensure_unique_name=True, select=_FIELDS
            )
        begun += piece
    with tempfile.TemporaryDirectory(prefix="lading-put-") as folder:
        return await api.create_large(
            "collections",
            fields,
            {"manifest_text": chain([begun], pieces)},
            Path(folder),
            ensure_unique_name=True,
            select=_FIELDS,
        )


def _replication(keeping: Keeping) -> dict[str, object]:
    """The fields of a collection with this replication."""
    values = zip(_WISHES, (list(keeping.classes), keeping.copies), strict=True)
    return {field: value for field, value in values if value}


async def _stored_before(api: ApiClient, name: str) -> dict[str, str]:
    """The signed locators of a stored collection by hash and size; none if it was deleted or must
    not be read. The manifest is written to disk.
    """
    if not name:
        return {}
    with tempfile.TemporaryDirectory(prefix="lading-put-") as folder:
        answer = Path(folder, "stored")
        try:
            await api.save(f"collections/{name}", answer, params={"select": ["manifest_text"]})
        except (NotFound, Forbidden):
            return {}
        return _locators_in(answer)


def _locators_in(answer: Path) -> dict[str, str]:
    """The signed locators by hash and size in a file with the JSON of a collection."""
    signed = dict[str, str]()
    with answer.open("rb") as file:
        tail = b""
        # JSON does not change locators. The last word of a piece may continue in the next one.
        while piece := file.read(_PIECE):
            window = tail + piece
            end = max(window.rfind(b" "), 0)
            signed |= {
                filetree.bare(signed_locator): signed_locator
                for signed_locator in manifest.locators(window[:end].decode("latin-1"))
            }
            tail = window[end:]
    return signed


def label_of(path: Path) -> str:
    """The name for the collection of a path; for `.` that of the directory."""
    # As a file of this name is stored.
    name = spell(_name_of(path))
    # Names of collections have no control characters.
    return name if name.isprintable() else repr(name)[1:-1]


def _name_of(path: Path) -> str:
    return path.absolute().name or path.resolve().name or "files"


def arrange(paths: Sequence[Path]) -> dict[str, Path]:
    """The place of each path in a collection: the content of a single directory at the top,
    otherwise each by its name.

    Raises Invalid when two have the same name, or one does not exist.
    """
    for path in paths:
        if not path.exists():
            raise Invalid(f"{path}: no such file or directory")
    if len(paths) == 1 and paths[0].is_dir():
        return {"": paths[0]}
    placed: dict[str, Path] = {}
    for path in paths:
        name = spell(_name_of(path))
        if name in placed:
            raise Invalid(
                f"{path}: {placed[name]} has the same name; "
                "put them one at a time, or in one directory"
            )
        placed[name] = path
    return placed


def _same(
    collections: Iterable[Record],
    *,
    name: str | None,
    project: str | None,
    replication: Mapping[str, object],
) -> Record | None:
    """The first collection with this name, project and replication; None stands for any."""
    for record in collections:
        is_here = name in (None, record["name"]) and project in (None, record["owner_uuid"])
        if is_here and all(record[field] == value for field, value in replication.items()):
            return record
    return None


def _deposit(record: dict[str, object], *, was_there: bool, remarks: tuple[str, ...]) -> Deposit:
    return Deposit(
        uuid=str(record["uuid"]),
        portable_data_hash=str(record["portable_data_hash"]),
        name=str(record["name"] or ""),
        file_count=int(str(record["file_count"] or 0)),
        file_size_total=int(str(record["file_size_total"] or 0)),
        was_there=was_there,
        remarks=remarks,
    )
