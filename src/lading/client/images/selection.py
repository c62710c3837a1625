"""Selection of paths of this machine for an image, with everything that leads to them.

A path brings its parent directories, each symbolic link on the way (so that /bin stays a link if it
is one) and the targets of the links.
"""

from __future__ import annotations

import os
import posixpath
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from lading.client.images.layer import LayerEntry

# Links followed for one path, as in the kernel (path_resolution(7)).
_MAX_LINKS = 40
_SKIPPED_NAMES = frozenset(("__pycache__", ".git"))
_ANY_EXECUTE, _OTHERS_READ = 0o111, stat.S_IROTH


class Selection:
    """A growing set of layer entries below `root`. Paths that match `without` are left out of whole
    trees.
    """

    def __init__(self, root: Path, *, without: re.Pattern[str] | None = None) -> None:
        self.root = root
        self._without = without
        self._entries: dict[str, LayerEntry] = {}
        self._folders: dict[str, str | None] = {"/": "/"}

    def entries(self) -> list[LayerEntry]:
        """All entries, by path."""
        return [self._entries[path] for path in sorted(self._entries)]

    def files(self) -> Iterator[str]:
        """The selected regular files."""
        return (path for path, entry in sorted(self._entries.items()) if stat.S_ISREG(entry.mode))

    def host(self, path: str) -> Path:
        """The path on this machine of a (canonical) path of the image."""
        return self.root / path.lstrip("/")

    def add(self, path: str) -> str | None:
        """Select a path; return it without links, or None if there is nothing to select."""
        for _ in range(_MAX_LINKS):
            folder = self._folder(posixpath.dirname(path))
            if folder is None:
                return None
            path = posixpath.join(folder, posixpath.basename(path))
            status = self._status(path)
            if status is None:
                return None
            if not stat.S_ISLNK(status.st_mode):
                return self._select(path, status)
            path = self._link(path)
        return None

    def add_tree(self, path: str, *, without: re.Pattern[str] | None = None) -> None:
        """Select a directory with its content, except for paths that match `without` from their
        start.
        """
        unwanted = [one for one in (without, self._without) if one is not None]
        for folder, names, files in os.walk(self.host(path)):
            inside = "/" + os.path.relpath(folder, self.root)
            paths = {
                name: posixpath.normpath(posixpath.join(inside, name)) for name in (*names, *files)
            }
            kept = {
                name
                for name, one in paths.items()
                if not any(pattern.match(one) for pattern in unwanted)
            }
            # Changed in place: os.walk enters only the directories that are left.
            names[:] = sorted(name for name in names if name in kept and name not in _SKIPPED_NAMES)
            for name in (*names, *sorted(kept.intersection(files))):
                self.add(paths[name])

    def put(self, entry: LayerEntry) -> None:
        """Add an entry that this machine does not have; its parents are created."""
        parent = posixpath.dirname(entry.path)
        if parent not in self._folders:
            self.put(LayerEntry(path=parent, mode=stat.S_IFDIR | 0o755))
        if stat.S_ISDIR(entry.mode):
            self._folders[entry.path] = entry.path
        self._entries[entry.path] = entry

    def _folder(self, path: str) -> str | None:
        if path not in self._folders:
            found = self.add(path)
            self._folders[path] = found if found in self._folders else None
        return self._folders[path]

    def _link(self, path: str) -> str:
        target = str(self.host(path).readlink())
        self._entries[path] = LayerEntry(path=path, mode=stat.S_IFLNK | 0o777, target=target)
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))

    def _select(self, path: str, status: os.stat_result) -> str | None:
        if stat.S_ISDIR(status.st_mode):
            if path not in self._entries and path != "/":
                self._entries[path] = LayerEntry(path=path, mode=stat.S_IFDIR | 0o755)
            self._folders[path] = path
        elif stat.S_ISREG(status.st_mode):
            # Only the execute bit is kept: the image does not depend on the umask of this machine.
            mode = 0o755 if status.st_mode & _ANY_EXECUTE else 0o644
            self._entries[path] = LayerEntry(
                path=path, mode=stat.S_IFREG | mode, source=self.host(path)
            )
        else:
            return None
        return path

    def is_private(self, path: str) -> bool:
        """Whether it is a file that others on this machine may not read."""
        status = self._status(path)
        return (
            status is not None
            and stat.S_ISREG(status.st_mode)
            and not status.st_mode & _OTHERS_READ
        )

    def _status(self, path: str) -> os.stat_result | None:
        try:
            return self.host(path).lstat()
        except OSError:
            return None
