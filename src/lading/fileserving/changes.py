"""Changes to the files of a collection by several writers.

A change is computed from the present collection and sent with its etag. If another writer was
faster, it is computed again, so concurrent writers never lose each other's files. Writers to one
collection run one after another in this server, which avoids most repetitions.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakValueDictionary

from lading.core import ids
from lading.core.data import dead_properties, filetree, splice
from lading.core.data.dead_properties import DeadProperties
from lading.core.errors import Conflict, Forbidden, LadingError
from lading.core.records.schema import Record
from lading.fileserving.collection_cache import CachedCollection, CollectionCache

Plan: TypeAlias = Callable[[CachedCollection], "Edit"]
Follow: TypeAlias = Callable[[DeadProperties], DeadProperties]
# Times that a change is computed again; then Conflict.
_ATTEMPTS: Final = 30
# Precondition Failed: the collection has another etag.
_CHANGED: Final = 412


@dataclass(frozen=True, slots=True)
class Edit:
    """Targets and sources of a change, and the status of success; no targets for no change."""

    files: Mapping[str, str]
    status: int


def unchanged(dead: DeadProperties) -> DeadProperties:
    """The same dead properties."""
    return dead


def fixed(collection: str) -> Forbidden:
    """The refusal of a change to a content."""
    return Forbidden(
        f"Forbidden: {collection} is a content, which never changes; name a collection by its uuid"
    )


class ConcurrentChanges:
    """Changes collections, with the tokens of their writers."""

    def __init__(self, collections: CollectionCache) -> None:
        self._collections = collections
        # A lock per collection with writers; it disappears with the last one.
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def open(self, collection: str, token: str) -> CachedCollection:
        """The present state of a collection that may be changed. Raises Forbidden for one that
        never changes, and the errors of `CollectionCache.open`.
        """
        if not ids.is_uuid(collection):
            raise fixed(collection)
        opened = await self._collections.open(collection, token)
        if not opened.editable:
            raise Forbidden(f"Forbidden: {collection} is a past version, which never changes")
        return opened

    async def apply(
        self,
        collection: str,
        token: str,
        plan: Plan,
        *,
        uploaded: str = "",
        dead: Follow = unchanged,
    ) -> Edit:
        """Apply the edit that `plan` computes from the present collection; `uploaded` is a manifest
        that the edit may take files from, `dead` says what becomes of the dead properties. Raises
        Conflict, and the errors of `plan`, of `open` and of the API.
        """
        line = self._lines.setdefault(collection, asyncio.Lock())
        api = self._collections.api(token)
        async with line:
            for _ in range(_ATTEMPTS):
                present = await self.open(collection, token)
                edit = plan(present)
                attributes: Record = {"manifest_text": uploaded} if uploaded else {}
                before = dead_properties.read(present.properties)
                if (after := dead(before)) != before:
                    attributes["properties"] = dead_properties.stored(present.properties, after)
                body: Record = {"collection": attributes, "select": ["portable_data_hash"]}
                if edit.files:
                    body["replace_files"] = edit.files
                # Nothing to change, for example for a reserved name that exists.
                elif not attributes:
                    return edit
                etag = {"If-Match": f'"{present.etag}"'}
                try:
                    changed = await api.request(
                        "PUT", f"collections/{present.uuid}", body=body, headers=etag
                    )
                except LadingError as error:
                    if error.status == _CHANGED:
                        continue
                    raise
                self._note(token, present, edit, uploaded, changed["portable_data_hash"])
                return edit
        raise Conflict(f"{collection}: too many concurrent changes; try again")

    def _note(
        self, token: str, present: CachedCollection, edit: Edit, uploaded: str, pdh: str
    ) -> None:
        """Cache the tree after the change, so that the next writer need not parse it."""
        sources = splice.read_files(dict(edit.files), supplied=bool(uploaded))
        # Sources in other collections would have to be fetched first; then the next writer parses
        # the tree.
        if not splice.contents_of(sources):
            supplied = filetree.from_manifest(uploaded)
            tree = splice.replace_files(present.tree, sources, supplied=supplied, contents={})
            self._collections.note(token, pdh, tree, like=present)
