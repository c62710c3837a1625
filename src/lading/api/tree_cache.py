"""The trees of large manifests that were worked on last: changing one again and again does not read
it each time.

A tree is found by the text that it is of, so that it can never be the wrong one. All is guarded by
a lock: texts are worked on in threads.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from typing import Final

from lading.core.data import filetree
from lading.core.data.filetree import Tree

_SMALL: Final = 1 << 16
_KEPT: Final = 32 << 20


class Trees:
    """Trees by text, of at most `limit` characters in all."""

    def __init__(self, *, limit: int = _KEPT) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._trees: OrderedDict[tuple[int, bytes], Tree] = OrderedDict()
        self._size = 0

    def read(self, text: str) -> Tree:
        """The tree of a manifest. Raises Malformed."""
        if len(text) < _SMALL:
            return filetree.from_manifest(text)
        key = _key(text)
        with self._lock:
            found = self._trees.get(key)
            if found is not None:
                self._trees.move_to_end(key)
                return found
        tree = filetree.from_manifest(text)
        self._keep(key, tree)
        return tree

    def note(self, text: str, tree: Tree) -> None:
        """Remember that a tree is that of a text, which `filetree.to_manifest` made of it."""
        if len(text) >= _SMALL:
            self._keep(_key(text), tree)

    def _keep(self, key: tuple[int, bytes], tree: Tree) -> None:
        with self._lock:
            if self._trees.pop(key, None) is None:
                self._size += key[0]
            self._trees[key] = tree
            while self._size > self._limit and self._trees:
                self._size -= self._trees.popitem(last=False)[0][0]


def _key(text: str) -> tuple[int, bytes]:
    return len(text), hashlib.sha256(text.encode()).digest()
