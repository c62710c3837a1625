"""Caches of collections: file trees of large manifests, and contents that mounts show.

- `Trees`: repeated changes of one collection do not parse its manifest each time. The key of a tree
  is the text of its manifest, so that a tree never belongs to another text. A lock guards the
  cache, because manifests are worked on in threads.
- `KnownContents`: contents of files and directories of collections, by collection and path.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from typing import Final

from lading.api.server.features import FeatureKey
from lading.core.bounded_memory import LruMap
from lading.core.data import filetree
from lading.core.data.filetree import FileTree
from lading.core.values import JsonObject

# Characters below which a manifest is parsed each time, which takes a millisecond or so.
_SMALL: Final = 1 << 16
# Characters of all cached manifests; a tree takes some times the memory of its text.
_KEPT: Final = 32 << 20
# Paths whose contents are remembered; each takes some 300 bytes.
_CONTENTS: Final = 100_000


class Trees:
    """Trees by manifest text, of at most `limit` characters in all; texts of less than `small`
    characters are parsed each time.
    """

    def __init__(self, *, limit: int = _KEPT, small: int = _SMALL) -> None:
        self._limit, self._small = limit, small
        self._lock = threading.Lock()
        self._trees = LruMap[tuple[int, bytes], FileTree](limit)

    def read(self, manifest_text: str) -> FileTree:
        """The tree of a manifest. Raises Malformed."""
        if len(manifest_text) < self._small:
            return filetree.from_manifest(manifest_text)
        key = _key(manifest_text)
        with self._lock:
            cached = self._trees.get(key)
        if cached is not None:
            return cached
        tree = filetree.from_manifest(manifest_text)
        self._keep(key, tree)
        return tree

    def note(self, manifest_text: str, tree: FileTree) -> None:
        """Keep the tree from which `filetree.to_manifest` made a text."""
        if len(manifest_text) >= self._small:
            self._keep(_key(manifest_text), tree)

    def _keep(self, key: tuple[int, bytes], tree: FileTree) -> None:
        if key[0] <= self._limit:
            with self._lock:
                self._trees.put(key, tree, key[0])


def _key(manifest_text: str) -> tuple[int, bytes]:
    return len(manifest_text), hashlib.sha256(manifest_text.encode()).digest()


class KnownContents:
    """Contents of files and directories of collections, by portable data hash and path, at most
    `limit`. `lock` is held while new ones are found: that takes a block of memory.
    """

    def __init__(self, *, limit: int = _CONTENTS) -> None:
        self.entries = LruMap[tuple[str, str], JsonObject](limit)
        self.lock = asyncio.Lock()


TREES: Final = FeatureKey("trees", Trees)
CONTENTS: Final = FeatureKey("contents of mounts", KnownContents)
