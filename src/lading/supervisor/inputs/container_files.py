"""Reads directories of a container for `core.containers.output`: by descriptors, without following
links.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from lading.core.containers.output.plan import (
    DirectoryEntry,
    Entry,
    FileEntry,
    LinkEntry,
    SpecialEntry,
    UnreadableEntry,
)
from lading.process.cancellation import Stop, Stopped, never
from lading.process.confined import ConfinedTree, open_directory

# Entries between two checks of `stop`.
_STRIDE = 256
# Files of a directory whose sizes are measured. Measuring all would take a third of the time of
# saving small files; the bytes of all are counted when they are read.
_MEASURED = 128


def find_entry(top: Path, path: str, *, measured: bool, stop: Stop = never) -> Entry | None:
    """The entry at `path` below `top`; None when it is missing or its parent is no directory. A
    file or directory that this account may not read is an UnreadableEntry, for root too where the
    file system refuses it. Raises OSError, Stopped.

    `measured`: the sizes of the first files of a directory are wanted.
    """
    try:
        with ConfinedTree.open(top) as tree:
            if not path:
                return _directory(tree, measured=measured, stop=stop)
            with tree.parent(path) as (folder, name):
                return _entry(name, folder, measured=measured, stop=stop)
    except (FileNotFoundError, NotADirectoryError):
        # It was removed meanwhile, as by the running container.
        return None
    except PermissionError:
        # A directory that keeps its names or the status of its entries from this account.
        return UnreadableEntry()


def _entry(name: str, folder: int, *, measured: bool, stop: Stop = never) -> Entry:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        with open_directory(name, folder) as tree:
            return _directory(tree, measured=measured, stop=stop)
    if stat.S_ISLNK(status.st_mode):
        return LinkEntry(os.readlink(name, dir_fd=folder))
    if not stat.S_ISREG(status.st_mode):
        return SpecialEntry()
    return FileEntry(status.st_size) if _is_readable(name, folder) else UnreadableEntry()


def _is_readable(name: str, folder: int) -> bool:
    """Whether this account may read a regular file. Root may, and needs no call to know it."""
    return os.geteuid() == 0 or os.access(
        name, os.R_OK, dir_fd=folder, effective_ids=True, follow_symlinks=False
    )


def _directory(tree: ConfinedTree, *, measured: bool, stop: Stop = never) -> DirectoryEntry:
    names, files, sizes = list[str](), list[str](), dict[str, int]()
    with os.scandir(tree.descriptor) as entries:
        for number, entry in enumerate(entries):
            if number % _STRIDE == 0 and stop():
                raise Stopped
            names.append(entry.name)
            # A file that cannot be read is examined by itself: it costs no other one.
            if entry.is_file(follow_symlinks=False) and _is_readable(entry.name, tree.descriptor):
                files.append(entry.name)
                if measured and len(files) <= _MEASURED:
                    sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
    return DirectoryEntry(tuple(names), frozenset(files), sizes)
