"""Merges the output of a gang's ranks into one directory when all of them are dead.

While ranks are alive, no other process writes into the output directory. The conductor collects in
its spool, a directory that no container sees:

    <rank>.stdout, <rank>.stderr   streams of a rank, where every rank runs the command
    <rank>.tar                     the output directory of a rank on another machine

The supervisor merges the spool into the output after it has killed every process of the gang, also
when the conductor was killed. Both sides access the output through `process.confined` only, since a
container may have left symbolic links there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec

from lading.client.images.tar_reader import TarReader, members
from lading.process.cancellation import Stop, Stopped, never
from lading.process.confined import ConfinedTree

STREAMS = ("stdout", "stderr")
# Directory in the output with the streams of each rank.
_RANKS = "ranks"
# Bytes copied at a time.
_CHUNK = 1 << 20
# Elements of a path in the output; deeper directories are left out, and a sentence says so.
MOST_DEPTH = 256
# Sentences in the log; further ones are counted.
_MOST_SENTENCES = 50
# Characters of a name in a message.
_SHOWN = 200
# Names of pax attributes.
OFFSET, SIZE = "LADING.offset", "LADING.size"
# Errors that concern one member only; any other ends the whole archive.
_OF_ONE = (
    errno.ELOOP, errno.ENOTDIR, errno.EEXIST, errno.EINVAL, errno.ENAMETOOLONG, errno.ENOENT,
    errno.EPERM, errno.EISDIR, errno.EMLINK, errno.EFBIG,
)  # fmt: skip


class GangOutput(msgspec.Struct, frozen=True):
    """Output of one gang: the conductor's spool, the host path of the output directory, the number
    of ranks.
    """

    spool: Path
    output: str
    nodes: int

    def merge(self, *, stop: Stop = never) -> tuple[str, ...]:
        """Merge everything; return sentences on members that are refused or missing.

        A file of a lower rank takes precedence. Processes of the gang must be dead. When `stop`
        returns true the rest is left out, and a sentence says so.
        """
        sentences = _Sentences()
        try:
            with ConfinedTree.open(self.output) as tree:
                for rank in range(self.nodes):
                    self._add_archive(tree, rank, sentences, stop)
                for rank in range(self.nodes):
                    for name in STREAMS:
                        self._add_stream(tree, rank, name, sentences, stop)
                _drop_empty(tree, self.nodes)
        except Stopped:
            sentences.add("stopped before the output of all ranks was merged")
        except OSError as error:
            sentences.add(f"the output of the ranks cannot be brought together: {error}")
        return sentences.all()

    def _add_archive(
        self, tree: ConfinedTree, rank: int, sentences: _Sentences, stop: Stop
    ) -> None:
        archive_path = self.spool / f"{rank}.tar"
        try:
            with archive_path.open("rb") as file:
                for sentence in _Unpacking(tree, stop).run(file):
                    sentences.add(f"rank {rank}: {sentence}")
        except FileNotFoundError:
            # The rank has sent nothing.
            return
        except (OSError, tarfile.TarError, ValueError) as error:
            sentences.add(f"rank {rank}: not all of its output could be had: {error}")
        archive_path.unlink(missing_ok=True)

    def _add_stream(
        self, tree: ConfinedTree, rank: int, name: str, sentences: _Sentences, stop: Stop
    ) -> None:
        source = self.spool / f"{rank}.{name}"
        if not source.exists():
            return
        path = f"{_RANKS}/{rank}/{name}.txt"
        try:
            with tree.parent(path, make=0o755) as (folder, last):
                try:
                    os.rename(source, last, dst_dir_fd=folder)
                except OSError as error:
                    # The spool is on another file system.
                    if error.errno != errno.EXDEV:
                        raise
                    _copy(source, last, folder, stop)
        except OSError as error:
            sentences.add(
                f"rank {rank}: {path} is not in the output: {os.strerror(error.errno or 0)}"
            )


class _Sentences:
    """A limited number of sentences, and the number of the others."""

    def __init__(self) -> None:
        self._few: list[str] = []
        self._more = 0

    def add(self, sentence: str) -> None:
        if len(self._few) < _MOST_SENTENCES:
            self._few.append(sentence)
        else:
            self._more += 1

    def all(self) -> tuple[str, ...]:
        return (*self._few, *([f"and {self._more} more of such"] if self._more else []))


def _copy(source: Path, name: str, folder: int, stop: Stop) -> None:
    """Copy a file in place of an existing one, which may not be a directory. Raises OSError,
    Stopped.
    """
    # Unlinked and created anew: the existing name could be a link out of the output.
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with (
        source.open("rb") as reading,
        open(os.open(name, flags, 0o644, dir_fd=folder), "wb") as writing,
    ):
        _pour(reading.read, writing, stop)


def _drop_empty(tree: ConfinedTree, nodes: int) -> None:
    """Remove the directories of ranks without output."""
    paths = [f"{_RANKS}/{rank}{suffix}" for rank in range(nodes) for suffix in ("/results", "")]
    for path in (*paths, _RANKS):
        # Directories with content stay: rmdir refuses them.
        with contextlib.suppress(OSError), tree.parent(path) as (folder, name):
            os.rmdir(name, dir_fd=folder)


class _Unpacking:
    """Adds the members of one archive to a tree, which may have some of them already."""

    def __init__(self, tree: ConfinedTree, stop: Stop) -> None:
        self._tree, self._stop = tree, stop
        self._folder = ""
        self._opened: ConfinedTree | None = None
        self._growing = ("", -1)

    def run(self, file: IO[bytes]) -> Iterator[str]:
        """Add all members; yields a sentence for each refused one. Raises OSError, TarError,
        ValueError, Stopped.
        """
        try:
            with TarReader.open(fileobj=file, mode="r:") as archive:
                for member in members(archive):
                    if self._stop():
                        raise Stopped
                    fault = self._add(archive, member)
                    if fault:
                        yield f"{member.name[:_SHOWN]} is left out: {fault}"
                # An archive ends with two empty blocks; one that was cut off between two members
                # has none.
                file.seek(archive.offset)
                if len(file.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
                    raise tarfile.ReadError("its end is missing")
        finally:
            self._let_go()
            if self._opened is not None:
                self._opened.close()

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
        """Add a member; the reason of its refusal, or "". Raises OSError, TarError, ValueError."""
        names = _elements(member.name)
        path = "/".join(names)
        fault = _fault(member, names)
        if fault:
            return fault
        try:
            if OFFSET in member.pax_headers:
                self._add_part(archive, member, path)
            else:
                self._let_go()
                self._make(archive, member, path)
        except OSError as error:
            if error.errno not in _OF_ONE:
                raise
            return os.strerror(error.errno)
        return ""

    def _make(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        """Make a directory, link or plain file. Raises OSError."""
        folder, _, name = path.rpartition("/")
        at = self._enter(folder)
        if member.isdir():
            # Another rank has the same directory.
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=at)
            return
        try:
            os.stat(name, dir_fd=at, follow_symlinks=False)
        except FileNotFoundError:
            # The name is free.
            pass
        else:
            # An entry of a lower rank stays.
            return
        if member.issym():
            os.symlink(member.linkname, name, dir_fd=at)
        elif member.islnk():
            with self._tree.parent("/".join(_elements(member.linkname))) as (source, known):
                os.link(known, name, src_dir_fd=source, dst_dir_fd=at, follow_symlinks=False)
        else:
            with open(self._create(name, at), "wb") as file:
                self._write(archive, member, file)

    def _add_part(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        """Write one piece of a file with holes. Raises OSError, ValueError."""
        if self._growing[0] != path:
            self._let_go()
            folder, _, name = path.rpartition("/")
            # When a lower rank has a file of the same name, the pieces are skipped.
            descriptor = -1
            with contextlib.suppress(FileExistsError):
                descriptor = self._create(name, self._enter(folder))
            self._growing = path, descriptor
            if descriptor >= 0:
                os.ftruncate(descriptor, int(member.pax_headers[SIZE]))
        if self._growing[1] >= 0:
            offset, size = int(member.pax_headers[OFFSET]), os.fstat(self._growing[1]).st_size
            if not 0 <= offset <= offset + member.size <= size:
                raise tarfile.ReadError(f"a piece of {path[:_SHOWN]} lies outside of it")
            with open(os.dup(self._growing[1]), "wb") as file:
                file.seek(offset)
                self._write(archive, member, file)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, file: IO[bytes]) -> None:
        """Write content, mode and time of a member. Raises OSError, TarError when the archive ends
        too early.
        """
        content: Any = archive.extractfile(member)
        _pour(content.read, file, self._stop)
        # Without set-user-id bits and write permission for others.
        os.fchmod(file.fileno(), member.mode & 0o755)
        # A time that the system cannot represent.
        with contextlib.suppress(OverflowError, ValueError):
            moment = int(float(member.mtime) * 1_000_000_000)
            os.utime(file.fileno(), ns=(moment, moment))

    def _let_go(self) -> None:
        if self._growing[1] >= 0:
            os.close(self._growing[1])
        self._growing = "", -1

    def _create(self, name: str, folder: int) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(name, flags, 0o600, dir_fd=folder)

    def _enter(self, path: str) -> int:
        """Descriptor of a directory, made if missing; it stays open until another one is
        requested.
        """
        if self._opened is None or self._folder != path:
            opened = self._tree.open_tree(path, make=0o755)
            if self._opened is not None:
                self._opened.close()
            self._folder, self._opened = path, opened
        return self._opened.descriptor


def _elements(path: str) -> list[str]:
    return [element for element in path.split("/") if element not in ("", ".")]


def _fault(member: tarfile.TarInfo, names: list[str]) -> str:
    """The reason to refuse a member with the path elements `names`, or ""."""
    if member.name.startswith("/") or not names or ".." in names:
        return "it leads out of the output"
    if len(names) > MOST_DEPTH:
        return f"it lies more than {MOST_DEPTH} directories deep"
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return "it is no file, directory or link"
    if member.issparse():
        return "it is a sparse file of a kind that is not read"
    if member.issym() and not _stays_below(member.linkname, "/".join(names[:-1])):
        return f"it is a link to {member.linkname[:_SHOWN]}, out of the output"
    return ""


def _stays_below(target: str, folder: str) -> bool:
    """Whether the target of a link in `folder` stays below the top, provided that no other link is
    on the way.
    """
    depth = len(_elements(folder))
    for element in _elements(target):
        depth += -1 if element == ".." else 1
        if depth < 0:
            return False
    return not target.startswith("/")


def _pour(read: Callable[[int], bytes], file: IO[bytes], stop: Stop) -> None:
    """Copy until the end of `read`. Raises OSError, Stopped, and errors of `read`."""
    while data := read(_CHUNK):
        if stop():
            raise Stopped
        file.write(data)
    file.flush()
