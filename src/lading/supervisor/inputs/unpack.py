"""Unpacks a layer archive of untrusted origin, read in bounded memory, for overlayfs.

Ownership, modes, times and extended attributes are kept; whiteouts are translated for overlayfs.
The archive is read once, as a stream, and hashed during that. Gzip is decompressed; the hash is
that of the plain archive.

Nothing is ever written outside the target directory: each folder is opened below its parent without
following links, and a symbolic link in the middle of a path is resolved inside the layer, including
`..` and a leading `/`. The root itself is a directory and stays one.

An archive is untrusted. It may contain only those devices that every container has; any other would
give a container the disks of the machine. It may not set attributes of overlayfs
(`trusted.overlay.*`). The sum of its files, with holes of sparse files, must fit the given limit,
and so must the data that is read, so that a small file cannot fill a disk; headers have a separate
limit, as they are held in memory. During long work a `Watch` of the caller looks whether the disk
has room, and whether to stop.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import os
import posixpath
import shutil
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final, Protocol, Self

import msgspec

from lading.client.images.tar_reader import MOST_MEMBERS, TarReader, members
from lading.confined import ConfinedTree
from lading.core.errors import ExecutionError, Failure
from lading.core.images import MOST_ELEMENTS, Whiteout, member_path, whiteout

# First bytes of a gzip (RFC 1952) and of a zstd (RFC 8878) file.
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
# Bytes written at a time.
_CHUNK = 1 << 20
# Symbolic links in one path; Linux allows 40 too (path_resolution(7)).
_MOST_LINKS = 40
# Prefix of extended attributes in pax headers.
_XATTR = "SCHILY.xattr."
# Marks a directory that hides all entries of the layers below it (kernel: overlayfs.rst).
_OPAQUE = "trusted.overlay.opaque"
_ATTRIBUTES = ("user.", "security.", "trusted.", "system.posix_acl_")
_OVERLAY = ("trusted.overlay.", "user.overlay.")
# Characters of a name in a message.
_SHOWN = 100
# Errors that blame the archive; all others blame the disk.
_IMPOSSIBLE = (
    errno.ENAMETOOLONG,
    errno.EINVAL,
    errno.ELOOP,
    errno.E2BIG,
    errno.ERANGE,
    errno.EMLINK,
)
# Blocks that the disk has when it is not the disk that refuses an attribute for lack of room.
_SOME_BLOCKS = 1024
_MOST_MEMBERS = MOST_MEMBERS
# Descriptors of folders that are kept open: consecutive members are mostly in one folder.
_MOST_OPEN = 64
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# null, zero, full, random, urandom; tty, console, ptmx.
_DEVICES: Final = frozenset({(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)})


# Bytes read, and entries made, between two calls of a `Watch`. A member of some hundred bytes may
# make 256 directories.
_WATCHED_BYTES: Final = 4 << 20
_WATCHED_ENTRIES: Final = 1000
# Bytes of the disk that a file or directory takes besides its content, at least.
_ENTRY = 4096

Watch = Callable[[], None]
"""Called during long work; its exception ends the work."""


def unwatched() -> None:
    """The `Watch` of work that cannot be stopped."""


class LayerContent(msgspec.Struct, frozen=True):
    """Content of a layer: the SHA-256 (hex) and the bytes of its plain archive, and, if it was
    unpacked, the bytes of its files on disk.
    """

    digest: str
    size: int
    unpacked: int = 0


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
            raise _fault(
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
) -> LayerContent:
    """Unpack the archive `source` into the new directory `target`.

    `limit` is the maximum of its bytes, and of the bytes of its files. Raises ExecutionError(IMAGE)
    for an archive that cannot be a layer, OSError when the disk fails or is full.
    """
    stream = _Hashing(_plain(source), limit, watch)
    target.mkdir(mode=0o755)
    try:
        with ConfinedTree.open(target) as tree, _Layer(tree, limit, watch) as layer:
            with TarReader.open(fileobj=stream, mode="r|") as tar:  # type: ignore[call-overload]
                for member in members(tar, most=most_members):
                    layer.add(tar, member)
            layer.finish()
        # The hash covers the padding after the last member too.
        while stream.read(_CHUNK):
            pass
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _fault(str(error)) from error
    except (ValueError, OverflowError) as error:
        # Numbers and names that the system cannot represent.
        raise _fault(f"a member that cannot be: {error}") from error
    except OSError as error:
        if error.errno not in _IMPOSSIBLE:
            raise
        raise _fault(f"a member that cannot be: {error.strerror}") from error
    return LayerContent(stream.digest.hexdigest(), stream.size, layer.unpacked)


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


class _Layer:
    """A layer directory during unpacking, and descriptors of the recently used directories."""

    def __init__(self, tree: ConfinedTree, limit: int, watch: Watch) -> None:
        self._tree, self._limit, self._watch = tree, limit, watch
        self._files = self._entries = 0
        self._folders: dict[str, int] = {}
        self._directory_times: dict[str, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._forget()

    @property
    def unpacked(self) -> int:
        """An estimate of the bytes of disk that the entries take."""
        return self._files + _ENTRY * self._entries

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Unpack one member of the archive."""
        self._count(member)
        self._count_entry()
        path = member_path(member.name)
        mark = whiteout(path)
        if mark is not None:
            self._hide(mark)
        elif member.isdir():
            self._make_directory(member, path)
        elif not path:
            raise _fault("its root is not a directory")
        elif member.isreg():
            self._make_file(tar, member, path)
        else:
            self._make_other(member, path)

    def finish(self) -> None:
        """Set the times of directories, which later members would have changed."""
        for path, moment in self._directory_times.items():
            folder, name = self._place(path)
            # A later member may have replaced the directory.
            with contextlib.suppress(FileNotFoundError):
                if not name:
                    os.utime(folder, ns=(moment, moment))
                elif stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    os.utime(name, ns=(moment, moment), dir_fd=folder, follow_symlinks=False)

    def _count(self, member: tarfile.TarInfo) -> None:
        self._files += max(member.size, 0) if member.isreg() else 0
        if member.size < 0 or self._files > self._limit:
            raise _fault(
                "its files are larger than the cache for images;"
                " raise Local.CacheSize if they are meant to be"
            )

    def _count_entry(self) -> None:
        self._entries += 1
        if self._entries % _WATCHED_ENTRIES == 0:
            self._watch()

    def _hide(self, mark: Whiteout) -> None:
        if mark.opaque:
            os.setxattr(self._folder(mark.path), _OPAQUE, b"y")
            return
        folder, name = self._place(mark.path)
        self._clear(folder, name)
        os.mknod(name, stat.S_IFCHR, os.makedev(0, 0), dir_fd=folder)

    def _make_directory(self, member: tarfile.TarInfo, path: str) -> None:
        folder, name = self._place(path)
        if name:
            try:
                # Mode 0700 until the owner is set.
                os.mkdir(name, 0o700, dir_fd=folder)
            except FileExistsError:
                if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    self._clear(folder, name)
                    os.mkdir(name, 0o700, dir_fd=folder)
        descriptor = self._folder(path)
        self._dress(member, descriptor)
        self._directory_times[path] = _moment(member)

    def _make_file(self, tar: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        folder, name = self._place(path)
        try:
            descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        # Tried without a look first: most members are new.
        except FileExistsError:
            self._clear(folder, name)
            descriptor = os.open(name, _NEW, 0o600, dir_fd=folder)
        content = tar.extractfile(member) if member.size else None
        with open(descriptor, "wb", buffering=0) as file:
            if content is not None:
                shutil.copyfileobj(content, file, _CHUNK)
            self._dress(member, descriptor)
            moment = _moment(member)
            os.utime(descriptor, ns=(moment, moment))

    def _make_other(self, member: tarfile.TarInfo, path: str) -> None:
        if member.islnk():
            self._link(member, path)
            return
        folder, name = self._place(path)
        self._clear(folder, name)
        if member.issym():
            if not member.linkname:
                raise _fault(f"{_shown(member)} is a link to nothing")
            os.symlink(member.linkname, name, dir_fd=folder)
        elif member.ischr() or member.isblk() or member.isfifo():
            _check_device(member)
            kind = (
                stat.S_IFCHR if member.ischr() else stat.S_IFBLK if member.isblk() else stat.S_IFIFO
            )
            os.mknod(
                name, kind | 0o600, os.makedev(member.devmajor, member.devminor), dir_fd=folder
            )
        else:
            raise _fault(f"{_shown(member)} has the unknown type {member.type!r}")
        # Owner first: changing it clears the set-user-id bit.
        os.chown(name, member.uid, member.gid, dir_fd=folder, follow_symlinks=False)
        for attribute, value in _attributes(member):
            # There is no call with a directory's descriptor; the last element is not followed.
            place = f"/proc/self/fd/{folder}/{name}"
            _set_attribute(member, place, attribute, value, follow_symlinks=False)
        if not member.issym():
            os.chmod(name, member.mode & 0o7777, dir_fd=folder)
        moment = _moment(member)
        os.utime(name, ns=(moment, moment), dir_fd=folder, follow_symlinks=False)

    def _link(self, member: tarfile.TarInfo, path: str) -> None:
        wanted = member_path(member.linkname)
        if not wanted:
            raise _fault(f"{_shown(member)} is a link to a directory")
        folder, known = self._place(wanted)
        # The descriptor of one folder may be closed when another is looked for.
        source = os.dup(folder)
        try:
            target, name = self._place(path)
            self._clear(target, name)
            os.link(known, name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
        except FileNotFoundError as error:
            raise _fault(
                f"{_shown(member)} is a link to {member.linkname[:_SHOWN]!r},"
                " which the layer does not have"
            ) from error
        except PermissionError as error:
            raise _fault(f"{_shown(member)} is a link to a directory") from error
        finally:
            os.close(source)

    def _dress(self, member: tarfile.TarInfo, descriptor: int) -> None:
        """Set owner, attributes and mode. The owner first: changing it clears the set-user-id bit
        (chown(2)).
        """
        os.chown(descriptor, member.uid, member.gid)
        for name, value in _attributes(member):
            _set_attribute(member, descriptor, name, value)
        os.chmod(descriptor, member.mode & 0o7777)

    def _place(self, path: str) -> tuple[int, str]:
        """Place of a member: the descriptor of its folder, with links followed, and its last
        element.
        """
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name

    def _folder(self, path: str) -> int:
        """The descriptor of a folder of the layer; made when missing, links are followed inside the
        layer.

        It stays open until `_MOST_OPEN` others were used.
        """
        if not path:
            return self._tree.descriptor
        known = self._folders.get(path)
        if known is None:
            known = self._open(path)
            if len(self._folders) >= _MOST_OPEN:
                # The oldest one: dictionaries keep the order of insertion.
                os.close(self._folders.pop(next(iter(self._folders))))
            self._folders[path] = known
        return known

    def _open(self, path: str) -> int:
        """Open a folder, starting at the nearest open parent, as long as no link is on the way."""
        above, _, rest = path.rpartition("/")
        names = [rest]
        while above and above not in self._folders:
            above, _, name = above.rpartition("/")
            names.append(name)
        here = os.dup(self._folders[above] if above else self._tree.descriptor)
        try:
            while names:
                below = self._enter(here, names.pop())
                if below < 0:
                    return self._resolve(path)
                os.close(here)
                here = below
            return os.dup(here)
        finally:
            os.close(here)

    def _enter(self, folder: int, name: str) -> int:
        """A descriptor of a directory below another, made if missing; -1 when a link is in its
        place.
        """
        # Twice: the first pass may have to make the directory.
        for _ in range(2):
            # The entry is missing, or no directory; the directory is made below.
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return os.open(name, _FOLDER, dir_fd=folder)
            try:
                if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    return -1
                self._clear(folder, name)
            except FileNotFoundError:
                # Nothing is in the way.
                pass
            self._count_entry()
            os.mkdir(name, 0o755, dir_fd=folder)
        raise _fault(f"{name[:_SHOWN]!r} cannot be made a directory")

    def _resolve(self, path: str) -> int:
        """Like `_open`, with links, each resolved as if the layer were the root directory."""
        stack = [os.dup(self._tree.descriptor)]
        rest, links = path.split("/")[::-1], 0
        try:
            while rest:
                name = rest.pop()
                if name == "..":
                    # `..` of the root is the root.
                    _close(stack, 1 if len(stack) > 1 else 0)
                if name in ("", ".", ".."):
                    continue
                below = self._enter(stack[-1], name)
                if below >= 0:
                    stack.append(below)
                    if len(stack) > MOST_ELEMENTS:
                        raise _fault(
                            f"{path[:_SHOWN]!r} goes over links to directories that lie too deep"
                        )
                    continue
                links += 1
                if links > _MOST_LINKS:
                    raise _fault(f"{path[:_SHOWN]} goes over too many links")
                target = os.readlink(name, dir_fd=stack[-1])
                if target.startswith("/"):
                    # An absolute link starts at the root of the layer.
                    _close(stack, len(stack) - 1)
                rest += target.split("/")[::-1]
            return stack.pop()
        finally:
            _close(stack, len(stack))

    def _clear(self, folder: int, name: str) -> None:
        """Remove an earlier member that a later one replaces."""
        try:
            os.unlink(name, dir_fd=folder)
        except FileNotFoundError:
            return
        except IsADirectoryError:
            ConfinedTree(folder).remove(name)
        # Open descriptors may lie below the removed directory; `folder` is in use.
        self._forget(but=folder)

    def _forget(self, *, but: int = -1) -> None:
        for path, descriptor in list(self._folders.items()):
            if descriptor != but:
                os.close(descriptor)
                del self._folders[path]


def _close(stack: list[int], number: int) -> None:
    """Close the last `number` descriptors of a stack."""
    for _ in range(number):
        os.close(stack.pop())


def _moment(member: tarfile.TarInfo) -> int:
    return int(float(member.mtime) * 1_000_000_000)


def _attributes(member: tarfile.TarInfo) -> Iterator[tuple[str, bytes]]:
    """The extended attributes of a member. Raises ExecutionError for one that an image may not
    set.
    """
    for header, value in member.pax_headers.items():
        if not header.startswith(_XATTR):
            continue
        name = header.removeprefix(_XATTR)
        if not name.startswith(_ATTRIBUTES):
            raise _fault(
                f"{_shown(member)} has the attribute {name[:_SHOWN]!r}, which no system knows"
            )
        if name.startswith(_OVERLAY):
            raise _fault(f"{_shown(member)} has the attribute {name}, which only overlayfs may set")
        yield name, value.encode("utf-8", "surrogateescape")


def _set_attribute(
    member: tarfile.TarInfo,
    place: int | str,
    name: str,
    value: bytes,
    *,
    follow_symlinks: bool = True,
) -> None:
    """Set an extended attribute. Raises ExecutionError when no entry of this type, or no entry at
    all, can have it; OSError when the disk cannot.
    """
    try:
        os.setxattr(place, name, value, follow_symlinks=follow_symlinks)
    except OSError as error:
        is_plain = member.isreg() or member.isdir()
        # ENOSPC: the attributes of a file have room in one block, whatever the disk has.
        is_too_large = error.errno == errno.ENOSPC and _has_blocks(place)
        if is_too_large or (not is_plain and error.errno in (errno.EPERM, errno.EOPNOTSUPP)):
            raise _fault(
                f"{_shown(member)} has the attribute {name[:_SHOWN]!r} of {len(value)} bytes, "
                "which its file system cannot store"
            ) from error
        raise


def _has_blocks(place: int | str) -> bool:
    target = place if isinstance(place, int) else posixpath.dirname(place)
    return os.statvfs(target).f_bavail > _SOME_BLOCKS


def _shown(member: tarfile.TarInfo) -> str:
    return repr(member.name if len(member.name) <= _SHOWN else f"{member.name[:_SHOWN]}...")


def _check_device(member: tarfile.TarInfo) -> None:
    known = member.ischr() and (member.devmajor, member.devminor) in _DEVICES
    if not member.isfifo() and not known:
        kind = "character" if member.ischr() else "block"
        number = f"{member.devmajor}:{member.devminor}"
        raise _fault(
            f"{_shown(member)} is the {kind} device {number};"
            " an image may hold null, zero and the like only"
        )


def _fault(text: str) -> ExecutionError:
    return ExecutionError(f"a layer of the image is damaged: {text}", Failure.IMAGE)
