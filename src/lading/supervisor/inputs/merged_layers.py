"""The files of several unpacked layers, as one on top of the other shows them.

Layers are directories as overlayfs reads them: a whiteout is the character device 0:0, and a
directory with the attribute `trusted.overlay.opaque` hides those below it (kernel: overlayfs.rst).
Where an ordinary user has written them it is `user.overlay.opaque`; no image may set either.
They hold files of strangers, so nothing is opened by a path with links.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import msgspec

from lading.process.confined import ConfinedTree

OPAQUE = "trusted.overlay.opaque"
"""Attribute of a directory that hides all entries of the layers below it."""
OPAQUE_OF_USER = "user.overlay.opaque"
"""The same where an ordinary user writes and mounts the layers."""
# As the kernel's own limit for one look-up (path_resolution(7)).
_MOST_LINKS = 40


class LayerFile(msgspec.Struct, frozen=True):
    """An entry of one layer."""

    tree: ConfinedTree
    path: str
    status: os.stat_result


def is_whiteout(status: os.stat_result) -> bool:
    """Whether an entry of a layer removes one of the layers below."""
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == 0


def is_opaque(directory: int) -> bool:
    """Whether a directory of a layer hides those below it, by its descriptor."""
    for name in (OPAQUE, OPAQUE_OF_USER):
        # It has no such attribute, or its file system has none at all.
        with suppress(OSError):
            if os.getxattr(directory, name) == b"y":
                return True
    return False


class MergedLayers:
    """Layers, lowest first, as a context manager. Raises OSError."""

    def __init__(self, layers: Sequence[Path]) -> None:
        self._paths = layers
        self._trees: list[ConfinedTree] = []
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            # Topmost first, as they are searched.
            self._trees = [
                opened.enter_context(ConfinedTree.open(path)) for path in reversed(self._paths)
            ]
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def find(self, path: str) -> LayerFile | None:
        """The entry at `path`, None where there is none. Links on the way to it are followed below
        the root, one in its place is not.
        """
        for _ in range(_MOST_LINKS):
            found = self._look(path)
            if not isinstance(found, str):
                return found
            path = found
        return None

    def _look(self, path: str) -> LayerFile | str | None:
        """The entry, None, or the path to look for after a link on the way."""
        parts = path.split("/")
        for tree in self._trees:
            hides = False
            for depth in range(1, len(parts) + 1):
                prefix = "/".join(parts[:depth])
                try:
                    status = tree.stat(prefix)
                except FileNotFoundError:
                    break
                if is_whiteout(status):
                    return None
                if depth == len(parts):
                    return LayerFile(tree, prefix, status)
                if not stat.S_ISDIR(status.st_mode):
                    return _behind_link(tree, prefix, parts[depth:], status)
                with tree.open_tree(prefix) as folder:
                    hides = hides or is_opaque(folder.descriptor)
            if hides:
                return None
        return None

    def is_occupied(self, path: str) -> bool:
        """Whether there is anything at `path` but an empty directory."""
        entry = self.find(path)
        if entry is None:
            return False
        if not stat.S_ISDIR(entry.status.st_mode):
            return True
        trees = self._trees[self._trees.index(entry.tree) :]
        return any(True for _ in self._entries(entry.path, list(_shown(entry.path, trees))))

    def walk(self, *, max_depth: int) -> Iterator[LayerFile]:
        """Every visible entry; a directory precedes its entries. Raises ELOOP for a directory that
        lies deeper than `max_depth`.
        """
        waiting: list[tuple[str, list[ConfinedTree]]] = [("", self._trees)]
        while waiting:
            folder, trees = waiting.pop()
            if folder.count("/") > max_depth:
                raise OSError(errno.ELOOP, f"directories lie more than {max_depth} deep", folder)
            for entry in self._entries(folder, trees):
                yield entry
                if stat.S_ISDIR(entry.status.st_mode):
                    below = trees[trees.index(entry.tree) :]
                    waiting.append((entry.path, list(_shown(entry.path, below))))

    def _entries(self, folder: str, trees: Sequence[ConfinedTree]) -> Iterator[LayerFile]:
        names: set[str] = set()
        for tree in trees:
            for entry in sorted(tree.scan(folder), key=lambda item: item.name):
                if entry.name in names:
                    continue
                names.add(entry.name)
                path = posixpath.join(folder, entry.name)
                status = tree.stat(path)
                if not is_whiteout(status):
                    yield LayerFile(tree, path, status)


def _behind_link(
    tree: ConfinedTree, prefix: str, remaining: Sequence[str], status: os.stat_result
) -> str | None:
    """The path to look for in place of one over the entry `prefix`; None if that is no link."""
    if not stat.S_ISLNK(status.st_mode):
        return None
    with tree.parent(prefix) as (folder, name):
        target = os.readlink(name, dir_fd=folder)
    # `..` of the root is the root.
    new_path = posixpath.normpath(
        posixpath.join("/", posixpath.dirname(prefix), target, *remaining)
    )
    return new_path.lstrip("/") or None


def _shown(path: str, trees: Sequence[ConfinedTree]) -> Iterator[ConfinedTree]:
    """The layers whose directory `path` contributes to the merged one, topmost first."""
    for tree in trees:
        try:
            directory = tree.open_tree(path)
        except FileNotFoundError:
            continue
        except OSError:
            # No directory: it hides those below.
            return
        with directory:
            yield tree
            if is_opaque(directory.descriptor):
                return
