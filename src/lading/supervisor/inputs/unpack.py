"""Unpacks a layer archive of untrusted origin, read in bounded memory, for overlayfs.

Ownership, modes, times and extended attributes are kept; whiteouts are translated for overlayfs.
The archive is read once, as a stream, and hashed during that. Gzip is decompressed; the hash is
that of the plain archive.

An archive is untrusted. `layer_writer` says what it may contain, and writes nothing outside the
target directory. The sum of its files, with holes of sparse files, must fit the given limit, and so
must the data that is read: a small file cannot fill a disk. Headers have a separate limit, as they
are held in memory. During long work a `Watch` of the caller looks whether the disk has room, and
whether to stop.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Protocol

import msgspec

from lading.client.images.tar_reader import MOST_MEMBERS, TarReader, members
from lading.core.errors import ExecutionError, Failure
from lading.core.remarks import Remarks
from lading.process.confined import ConfinedTree
from lading.supervisor.inputs.layer_writer import LayerWriter, Watch, fault
from lading.supervisor.inputs.merged_layers import MergedLayers

# First bytes of a gzip (RFC 1952) and of a zstd (RFC 8878) file.
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Bytes written at a time.
_CHUNK = 1 << 20
# Errors that blame the archive; all others blame the disk.
_IMPOSSIBLE = (
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ELOOP,
    errno.E2BIG,
    errno.ERANGE,
    errno.EMLINK,
)
_MOST_MEMBERS = MOST_MEMBERS
# Bytes read between two calls of a `Watch`.
_WATCHED_BYTES: Final = 4 << 20


def unwatched() -> None:
    """The `Watch` of work that cannot be stopped."""


class LayerContent(msgspec.Struct, frozen=True):
    """Content of a layer: the SHA-256 (hex) and the bytes of its plain archive, and, if it was
    unpacked, the bytes of its files on disk.
    """

    digest: str
    size: int
    unpacked: int = 0
    is_bound: bool = False
    """Whether its files depend on the layers below."""
    left_out: Remarks = Remarks()
    """Remarks about devices and attributes that the files lack."""


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Hashing:
    """Reads from another file and hashes the data, at most `limit` bytes."""

    def __init__(self, source: _Readable, limit: int, watch: Watch) -> None:
        self._source, self._limit, self._watch = source, limit, watch
        self._unwatched = 0
        self.size = 0
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Like a file's read."""
        data = self._source.read(size)
        self.size += len(data)
        self._unwatched += len(data)
        if self._unwatched >= _WATCHED_BYTES:
            self._unwatched = 0
            self._watch()
        if self.size > self._limit:
            raise fault(
                "it is larger than the cache for images; raise Local.CacheSize if it is meant to be"
            )
        self.digest.update(data)
        return data


def unpack_layer(
    source: IO[bytes],
    target: Path,
    *,
    limit: int,
    watch: Watch = unwatched,
    most_members: int = _MOST_MEMBERS,
    below: MergedLayers | None = None,
    user_ids: int = 0,
) -> LayerContent:
    """Unpack the archive `source` into the new directory `target`.

    `limit` is the maximum of its bytes, and of the bytes of its files. `below`: the layers below
    it; `user_ids`: as of `LayerWriter`. Raises ExecutionError(IMAGE) for an archive that
    cannot be a layer, OSError when the disk fails or is full.
    """
    stream = _Hashing(_plain(source), limit, watch)
    target.mkdir(mode=0o755)
    with (
        _faults(),
        ConfinedTree.open(target) as tree,
        LayerWriter(tree, limit, watch, below, user_ids=user_ids) as layer,
    ):
        _each(stream, layer.add, most_members)
        layer.finish()
    return _content(stream, layer)


def merge_layer(
    source: IO[bytes],
    target: Path,
    *,
    limit: int,
    watch: Watch = unwatched,
    user_ids: int = 0,
) -> LayerContent:
    """Unpack the archive `source` into the directory `target`, which holds all layers below it.
    Raises as `unpack_layer`.
    """
    with _faults(), ConfinedTree.open(target) as tree:
        with LayerWriter(tree, limit, watch) as removal:
            # First all that it removes: its own entries stay, whatever precedes.
            _each(
                _Hashing(_plain(source), limit, watch),
                lambda _, member: removal.remove(member),
                _MOST_MEMBERS,
            )
        source.seek(0)
        stream = _Hashing(_plain(source), limit, watch)
        with LayerWriter(tree, limit, watch, user_ids=user_ids) as layer:
            _each(stream, layer.merge, _MOST_MEMBERS)
            layer.finish()
    return _content(stream, layer)


def _each(
    stream: _Hashing, add: Callable[[tarfile.TarFile, tarfile.TarInfo], None], most: int
) -> None:
    """Call `add` for each member of an archive, and read it to its end."""
    with TarReader.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
        for member in members(tar, most=most):
            add(tar, member)
    # The hash covers the padding after the last member too.
    while stream.read(_CHUNK):
        pass


def _content(stream: _Hashing, layer: LayerWriter) -> LayerContent:
    return LayerContent(
        stream.digest.hexdigest(), stream.size, layer.unpacked, layer.is_bound, layer.left_out
    )


@contextlib.contextmanager
def _faults() -> Iterator[None]:
    """Raise ExecutionError(IMAGE) for what the archive is to blame for."""
    try:
        yield
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise fault(str(error)) from error
    except (ValueError, OverflowError) as error:
        # Numbers and names that the system cannot represent.
        raise fault(f"a member that cannot be: {error}") from error
    except OSError as error:
        if error.errno not in _IMPOSSIBLE:
            raise
        raise fault(f"a member that cannot be: {error.strerror}") from error


def hash_layer(source: IO[bytes], *, limit: int, watch: Watch = unwatched) -> LayerContent:
    """Hash and size of the plain archive `source`, as `unpack_layer` returns them; raises the same
    errors for damage.
    """
    stream = _Hashing(_plain(source), limit, watch)
    while stream.read(_CHUNK):
        pass
    return LayerContent(stream.digest.hexdigest(), stream.size)


def _plain(source: IO[bytes]) -> _Readable:
    start = source.read(4)
    source.seek(0)
    if start == _ZSTD:
        raise ExecutionError(
            "a layer of the image is compressed with zstd; save the image with plain layers",
            Failure.IMAGE,
        )
    return gzip.GzipFile(fileobj=source) if start.startswith(_GZIP) else source
