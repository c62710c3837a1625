"""One layer archive, unpacked into a directory of its own, for overlayfs.

Ownership, modes, times and extended attributes are kept; whiteouts become what overlayfs understands. The archive is
read once, as a stream, and hashed on the way. Gzip is undone; the hash is that of the plain archive.

Nothing is ever written outside the directory: every element of a path is looked at, and a symbolic link in the middle
of one is followed inside the layer, its `..` and leading `/` included. The root itself is a directory and stays one.

An archive is a stranger's. Of devices it may have those that every container has anyway: with any other, a container
would have the machine's disks. What only overlayfs sets (`trusted.overlay.*`) it may not set. Its files together, holes
of sparse ones included, must fit the given limit, and so must what unpacking reads, so that a small file cannot fill a
disk; headers have a limit of their own, as they are held in memory.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import zlib
from pathlib import Path
from typing import IO, Final, Protocol, Self

from lading.core.errors import ExecutionError, Failure
from lading.core.imagelayout import Whiteout, member_path, whiteout

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20
_MOST_LINKS = 40
_XATTR = "SCHILY.xattr."
_OPAQUE = "trusted.overlay.opaque"
_ATTRIBUTES = ("user.", "security.", "trusted.", "system.posix_acl_")
_OVERLAY = ("trusted.overlay.", "user.overlay.")
_SHOWN = 100
_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.E2BIG, errno.ERANGE)
_MOST_MEMBERS = 5_000_000
_MOST_HEADER = 1 << 15
_HEADERS = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
# null, zero, full, random, urandom; tty, console, ptmx.
_DEVICES: Final = frozenset({(1, 3), (1, 5), (1, 7), (1, 8), (1, 9), (5, 0), (5, 1), (5, 2)})


class _Readable(Protocol):
    def read(self, size: int = -1, /) -> bytes: ...


class _Hashing:
    """Reads through to another file and hashes what passes, at most `limit` bytes of it."""

    def __init__(self, source: _Readable, limit: int) -> None:
        self._source = source
        self._left = limit
        self.digest = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """As a file's read."""
        data = self._source.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _fault("it is larger than the cache for images; raise Local.CacheSize if it is meant to be")
        self.digest.update(data)
        return data


class Member(tarfile.TarInfo):
    """A member whose headers are of a size that headers have."""

    def _proc_member(self, archive: tarfile.TarFile) -> Self:
        if self.type in _HEADERS and not 0 <= self.size <= _MOST_HEADER:
            raise _fault(f"a header of {self.size} bytes")
        found: Self = super()._proc_member(archive)  # type: ignore[misc]
        return found


def unpack_layer(source: IO[bytes], target: Path, *, limit: int) -> str:
    """Unpack the archive `source` into the new directory `target`; the sha256 (hex) of the plain archive.

    `limit` is the most bytes that it may be, and that its files may have. Raises ExecutionError(IMAGE) for an archive
    that cannot be a layer, OSError when the disk does not take it.
    """
    start = source.read(4)
    source.seek(0)
    if start == _ZSTD:
        raise ExecutionError(
            "a layer of the image is compressed with zstd; save the image with plain layers", Failure.IMAGE
        )
    plain: _Readable = gzip.GzipFile(fileobj=source) if start.startswith(_GZIP) else source
    stream = _Hashing(plain, limit)
    target.mkdir(mode=0o755)
    layer = _Layer(target, limit)
    try:
        with tarfile.open(fileobj=stream, mode="r|", tarinfo=Member) as tar:  # type: ignore[call-overload]
            for member in tar:
                layer.add(tar, member)
        layer.finish()
        while stream.read(_CHUNK):
            pass
    except (tarfile.TarError, EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _fault(str(error)) from error
    except (ValueError, OverflowError) as error:
        # Numbers and names that the system has no place for.
        raise _fault(f"a member that cannot be: {error}") from error
    except OSError as error:
        if error.errno not in _IMPOSSIBLE:
            raise
        raise _fault(f"a member that cannot be: {error.strerror}") from error
    return stream.digest.hexdigest()


class _Layer:
    """A layer directory that is being filled."""

    def __init__(self, root: Path, limit: int) -> None:
        self._root = root
        self._room = limit
        self._members = 0
        self._real: dict[str, Path] = {"": root}
        self._directory_times: dict[Path, int] = {}

    def add(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Put one member of the archive in its place."""
        self._count(member)
        path = member_path(member.name)
        mark = whiteout(path)
        if mark is not None:
            self._hide(mark)
            return
        place = self._place(path) if path else self._root
        if member.isdir():
            self._make_directory(place)
        elif not path:
            raise _fault("its root is not a directory")
        else:
            self._clear(place)
            self._make_other(tar, member, place)
        if not member.islnk():
            self._dress(member, place)

    def finish(self) -> None:
        """Set what later members would have disturbed: the times of directories."""
        for place, moment in self._directory_times.items():
            if place.is_dir() and not place.is_symlink():
                os.utime(place, ns=(moment, moment))

    def _count(self, member: tarfile.TarInfo) -> None:
        self._members += 1
        self._room -= max(member.size, 0) if member.isreg() else 0
        if member.size < 0 or self._room < 0:
            raise _fault(
                "its files are larger than the cache for images; raise Local.CacheSize if they are meant to be"
            )
        if self._members > _MOST_MEMBERS:
            raise _fault(f"it has more than {_MOST_MEMBERS} members")

    def _hide(self, mark: Whiteout) -> None:
        if mark.opaque:
            os.setxattr(self._folder(mark.path), _OPAQUE, b"y")
            return
        place = self._place(mark.path)
        self._clear(place)
        os.mknod(place, stat.S_IFCHR, os.makedev(0, 0))

    def _make_directory(self, place: Path) -> None:
        if place.is_symlink() or not place.is_dir():
            self._clear(place)
            place.mkdir()

    def _make_other(self, tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
        if member.issym():
            if not member.linkname:
                raise _fault(f"{_shown(member)} is a link to nothing")
            place.symlink_to(member.linkname)
            self._real = {"": self._root}
        elif member.islnk():
            wanted = member_path(member.linkname)
            source = self._place(wanted)
            if not wanted or (source.is_dir() and not source.is_symlink()):
                raise _fault(f"{_shown(member)} is a link to a directory")
            try:
                os.link(source, place, follow_symlinks=False)
            except FileNotFoundError as error:
                raise _fault(
                    f"{_shown(member)} is a link to {member.linkname[:_SHOWN]!r}, which the layer does not have"
                ) from error
        elif member.ischr() or member.isblk() or member.isfifo():
            _check_device(member)
            kind = stat.S_IFCHR if member.ischr() else stat.S_IFBLK if member.isblk() else stat.S_IFIFO
            os.mknod(place, kind | 0o600, os.makedev(member.devmajor, member.devminor))
        elif member.isreg():
            content = tar.extractfile(member)
            descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                if content is not None:
                    shutil.copyfileobj(content, file, _CHUNK)
        else:
            raise _fault(f"{_shown(member)} has the unknown type {member.type!r}")

    def _dress(self, member: tarfile.TarInfo, place: Path) -> None:
        """Owner first: changing it clears the set-user-id bit."""
        os.chown(place, member.uid, member.gid, follow_symlinks=False)
        for header, value in member.pax_headers.items():
            name = header.removeprefix(_XATTR)
            if header.startswith(_XATTR):
                if not name.startswith(_ATTRIBUTES):
                    raise _fault(f"{_shown(member)} has the attribute {name[:_SHOWN]!r}, which no system knows")
                if name.startswith(_OVERLAY):
                    raise _fault(f"{_shown(member)} has the attribute {name}, which only overlayfs may set")
                os.setxattr(place, name, value.encode("utf-8", "surrogateescape"), follow_symlinks=False)
        if not member.issym():
            place.chmod(member.mode & 0o7777)
        moment = int(float(member.mtime) * 1_000_000_000)
        if member.isdir():
            self._directory_times[place] = moment
        else:
            os.utime(place, ns=(moment, moment), follow_symlinks=False)

    def _place(self, path: str) -> Path:
        """The host path for a member: its folder resolved, its last element as it is."""
        folder, _, name = path.rpartition("/")
        return self._folder(folder) / name

    def _folder(self, path: str) -> Path:
        """The host path of a folder of the layer, made when it is not there, links followed inside the layer."""
        known = self._real.get(path)
        if known is None:
            known = self._real[path] = self._walk(path)
        return known

    def _walk(self, path: str) -> Path:
        done: list[str] = []
        rest, links = path.split("/"), 0
        while rest:
            name = rest.pop(0)
            if name == "..":
                done = done[:-1]
            if name in ("", ".", ".."):
                continue
            place = self._root.joinpath(*done, name)
            if place.is_symlink():
                links += 1
                if links > _MOST_LINKS:
                    raise _fault(f"{path} goes over too many links")
                target = str(place.readlink())
                done = [] if target.startswith("/") else done
                rest = [*target.split("/"), *rest]
                continue
            if not place.is_dir():
                self._clear(place)
                place.mkdir(0o755)
            done.append(name)
        return self._root.joinpath(*done)

    def _clear(self, place: Path) -> None:
        """Make room: a later member replaces an earlier one."""
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
            self._real = {"": self._root}
        elif os.path.lexists(place):
            place.unlink()
            self._real = {"": self._root}


def _shown(member: tarfile.TarInfo) -> str:
    return repr(member.name if len(member.name) <= _SHOWN else f"{member.name[:_SHOWN]}...")


def _check_device(member: tarfile.TarInfo) -> None:
    known = member.ischr() and (member.devmajor, member.devminor) in _DEVICES
    if not member.isfifo() and not known:
        kind = "character" if member.ischr() else "block"
        number = f"{member.devmajor}:{member.devminor}"
        raise _fault(f"{_shown(member)} is the {kind} device {number}; an image may hold null, zero and the like only")


def _fault(text: str) -> ExecutionError:
    return ExecutionError(f"a layer of the image is damaged: {text}", Failure.IMAGE)
