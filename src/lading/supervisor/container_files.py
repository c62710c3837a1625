"""What a container left in its directories, as `core.output` looks at it: by descriptors, no link followed."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lading.confined import Tree, open_directory
from lading.core.output import DirectoryEntry, Entry, FileEntry, LinkEntry, SpecialEntry


def look(top: Path, path: str, *, measured: bool) -> Entry | None:
    """What is at `path` below `top`; None where nothing is, or the way there is no directory. Raises OSError.

    `measured`: the sizes of the files of a directory are wanted.
    """
    try:
        with Tree.open(top) as tree:
            if not path:
                return _directory(tree, measured=measured)
            with tree.parent(path) as (folder, name):
                return _entry(name, folder, measured=measured)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _entry(name: str, folder: int, *, measured: bool) -> Entry:
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):
        with open_directory(name, folder) as tree:
            return _directory(tree, measured=measured)
    if stat.S_ISLNK(found.st_mode):
        return LinkEntry(os.readlink(name, dir_fd=folder))
    return FileEntry(found.st_size) if stat.S_ISREG(found.st_mode) else SpecialEntry()


def _directory(tree: Tree, *, measured: bool) -> DirectoryEntry:
    with os.scandir(tree.descriptor) as entries:
        found = list(entries)
        files = [one for one in found if one.is_file(follow_symlinks=False)]
        sizes = {one.name: one.stat(follow_symlinks=False).st_size for one in (files if measured else ())}
    return DirectoryEntry(tuple(one.name for one in found), frozenset(one.name for one in files), sizes)
