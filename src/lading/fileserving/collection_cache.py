"""The cache of the trees of collections.

The record is fetched for each request as the caller sees it, so that permissions, trash and changes
take effect at once. The tree of files is cached by token and content: a large one takes time to
parse, and its signatures belong to the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from lading.client.api import ApiClient, Record
from lading.client.retry import RetryPolicy
from lading.client.transport import Transport
from lading.core import ids
from lading.core.bounded_memory import LruMap
from lading.core.data import filetree
from lading.core.data.filetree import FileTree, Node
from lading.core.errors import NotFound, Unauthenticated
from lading.core.quantities import parse_time
from lading.core.records.schema import JSON

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
class _CachedTree:
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
        self._collections = LruMap[tuple[bytes, str], _CachedTree](limit)

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
        kept = self._collections.get((key, like.pdh))
        if kept is not None and kept.size > self._large:
            self._keep((key, pdh), tree, kept.size)

    async def _record(self, collection: str, token: str, select: tuple[str, ...]) -> Record:
        found = await self.api(token).get("collections", collection, select=select)
        if not isinstance(found.get("portable_data_hash"), str):
            raise NotFound(f"Path not found: {collection}")
        return found

    def _find(self, key: tuple[bytes, str]) -> FileTree | None:
        kept = self._collections.get(key)
        if kept is None or kept.until <= self._clock():
            return None
        return kept.tree

    def _keep(self, key: tuple[bytes, str], tree: FileTree, size: int) -> None:
        self._collections.put(key, _CachedTree(tree, size, self._clock() + _LIFE), size)

    async def _parse(self, manifest: str) -> FileTree:
        if len(manifest) > self._large:
            return await asyncio.to_thread(filetree.from_manifest, manifest)
        return filetree.from_manifest(manifest)


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
