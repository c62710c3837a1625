"""The trees of large manifests that were worked on last: changing one again and again does not read
it each time.

A tree is found by the text that it is of, so that it can never be the wrong one. All is guarded by
a lock: texts are worked on in threads.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final

from lading.core.data import filetree
from lading.core.data.filetree import Tree
from lading.core.lru import LruMap

_SMALL: Final = 1 << 16
_KEPT: Final = 32 << 20


class Trees:
    """Trees by text, of at most `limit` characters in all."""

    def __init__(self, *, limit: int = _KEPT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._trees = LruMap[tuple[int, bytes], Tree](limit)

    def read(self, text: str) -> Tree:
        """The tree of a manifest. Raises Malformed."""
        if len(text) < _SMALL:
            return filetree.from_manifest(text)
        key = _key(text)
        with self._lock:
            found = self._trees.get(key)
        if found is not None:
            return found
        tree = filetree.from_manifest(text)
        self._keep(key, tree)
        return tree

    def note(self, text: str, tree: Tree) -> None:
        """Remember that a tree is that of a text, which `filetree.to_manifest` made of it."""
        if len(text) >= _SMALL:
            self._keep(_key(text), tree)

    def _keep(self, key: tuple[int, bytes], tree: Tree) -> None:
        if key[0] <= self._limit:
            with self._lock:
                self._trees.put(key, tree, key[0])


def _key(text: str) -> tuple[int, bytes]:
    return len(text), hashlib.sha256(text.encode()).digest()
