"""Answers to calls of the kernel: from the nodes of a mount, and bytes of files from open blocks.

Each method of `Operations` may be called from any thread and raises OSError with the errno for the
caller of the system call: ENOENT for missing names, EACCES for unreadable ones, EIO for everything
else, with the reason in the log. Files are not opened: a read names its path, which saves two calls
for each file, an important part of the time for small files. A file that is being read stays
readable when its collection is deleted or the server is silent.
"""

from __future__ import annotations

import errno
import itertools
import logging
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

from lading.client.mount import nodes
from lading.client.mount.nodes import Directory, MountPlace, Node, Text, Unknown
from lading.client.mount.open_blocks import LoopBridge, OpenBlocks, OpenFileReader
from lading.core.data.filetree import File, FileTree
from lading.core.errors import (
    Forbidden,
    LadingError,
    NotFound,
    Unauthenticated,
)

_logger = logging.getLogger("lading.mount")
_DIRECTORY = stat.S_IFDIR | 0o555
_FILE = stat.S_IFREG | 0o555
_HIDDEN = ".arvados#"
# Files whose readers are kept, with their read-ahead state; beyond it the oldest is dropped.
_READERS = 1024


@dataclass(slots=True)
class MountCounters:
    """Statistics of a mount: calls by name, bytes read, and calls that ended with EIO."""

    began: float = field(default_factory=time.time)
    calls: dict[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    failed: int = 0

    def add(self, name: str) -> None:
        """Count one call."""
        self.calls[name] = self.calls.get(name, 0) + 1

    def plain(self) -> dict[str, object]:
        """The counters as plain values."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class FileStatus:
    """Result of stat(2): mode, bytes, and nanoseconds since 1970."""

    mode: int
    size: int
    modified: int


class Operations:
    """The file system, read-only. The `most` files read last are known without a look at them."""

    def __init__(
        self, root: Directory, blocks: OpenBlocks, bridge: LoopBridge, *, most: int = _READERS
    ) -> None:
        self._most = most
        self.counts = MountCounters()
        self._root = root
        self._blocks = blocks
        self._bridge = bridge
        # By path, last used at the end.
        self._readers: dict[str, OpenFileReader] = {}
        self._turn = threading.Lock()
        self._directories: dict[int, list[tuple[str, int]]] = {}
        self._numbers = itertools.count(1)

    def status(self, path: str) -> FileStatus:
        """Status of a path."""
        with self._answering("getattr", path):
            return _status(self._place(path))

    def open_directory(self, path: str) -> int:
        """Open a directory; return its number."""
        with self._answering("opendir", path):
            node = self._place(path).node
            if isinstance(node, File | Text):
                raise OSError(errno.ENOTDIR, path)
            entries = node.entries if isinstance(node, FileTree) else self._bridge.call(node.list())
            number = next(self._numbers)
            self._directories[number] = [
                (name, _mode(entry))
                for name, entry in entries.items()
                if not name.startswith(_HIDDEN)
            ]
            return number

    def names(self, number: int) -> list[tuple[str, int]]:
        """The names in an open directory, each with its mode."""
        return self._directories[number]

    def read(self, path: str, target: memoryview, offset: int) -> int:
        """Fill `target` from a file; return the number of bytes read."""
        with self._answering("lookup", path):
            reader = self._reader(path)
        with self._answering("read", path):
            if isinstance(reader, Text):
                piece = reader.content[offset : offset + len(target)]
                target[: len(piece)] = piece
                return len(piece)
            done = reader.read_into(target, offset, self._blocks)
            self.counts.bytes_read += done
            return done

    def close_directory(self, number: int) -> None:
        """Close a directory."""
        self._directories.pop(number, None)

    def _place(self, path: str) -> MountPlace:
        elements = path.split("/")[1:] if path != "/" else []
        # Without the event loop if everything on the way is known; this is the usual case.
        try:
            place = nodes.peek(self._root, elements)
        except Unknown:
            place = self._bridge.call(nodes.find(self._root, elements))
        if place is None:
            raise OSError(errno.ENOENT, path)
        return place

    def _reader(self, path: str) -> OpenFileReader | Text:
        reader = self._readers.get(path)
        try:
            position = self._place(path)
        except (LadingError, OSError):
            # The path is gone or the server silent: a file that is being read stays readable.
            if reader is None:
                raise
            return reader
        node = position.node
        if isinstance(node, Text):
            return node
        if not isinstance(node, File):
            raise OSError(errno.EISDIR, path)
        # A changed collection has new File objects: the old content ends with the next read.
        if reader is None or reader.file is not node:
            reader = self._remember(path, OpenFileReader(node, position.renew))
        return reader

    def _remember(self, path: str, reader: OpenFileReader) -> OpenFileReader:
        with self._turn:
            self._readers.pop(path, None)
            self._readers[path] = reader
            if len(self._readers) > self._most:
                del self._readers[next(iter(self._readers))]
        return reader

    @contextmanager
    def _answering(self, name: str, path: str) -> Iterator[None]:
        """Translates errors into an errno for the caller, and logs the reason."""
        self.counts.add(name)
        try:
            yield
        except NotFound as error:
            # The file was found, but a block of it was not: that is an I/O error.
            if name == "read":
                raise self._failed(name, path, error) from error
            raise OSError(errno.ENOENT, path) from error
        except (Forbidden, Unauthenticated) as error:
            _logger.warning("%s path=%r refused: %s", name, path, error.message)
            raise OSError(errno.EACCES, path) from error
        except LadingError as error:
            raise self._failed(name, path, error) from error
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR) and name != "read":
                raise
            raise self._failed(name, path, error) from error

    def _failed(self, name: str, path: str, error: Exception) -> OSError:
        self.counts.failed += 1
        _logger.error("%s path=%r failed: %s", name, path, error)
        return OSError(errno.EIO, path)


def _mode(node: Node) -> int:
    return _FILE if isinstance(node, File | Text) else _DIRECTORY


def _status(position: MountPlace) -> FileStatus:
    node = position.node
    size = (
        node.size if isinstance(node, File) else len(node.content) if isinstance(node, Text) else 0
    )
    return FileStatus(_mode(node), size, int(position.modified * 1_000_000_000))
