"""Git trees for mounts: fetched from the API as an archive, and unpacked safely.

`git archive` writes directories, files (executable or not) and symbolic links; any other member is
refused. Nothing is written through a link: each element of a path is opened without following
links, below a directory that is open already. Links are kept; the container follows them in its own
file system.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import posixpath
import tarfile
from pathlib import Path
from typing import IO

from lading.client.api import ApiClient
from lading.client.images.tar_reader import TarReader, members
from lading.core.containers.mounting.mount_steps import BLOB, GitTree
from lading.core.errors import ExecutionError, Failure, RequestError, Unavailable
from lading.process.cancellation import Stop, Stopped, never
from lading.process.concurrency import in_thread
from lading.process.confined import ConfinedTree

_UNFIT = frozenset({errno.ENAMETOOLONG, errno.ENOENT, errno.EINVAL, errno.EILSEQ})
"""Errors of a name or of a link's target."""
# Bytes read at a time.
_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


async def fetch(api: ApiClient, container_uuid: str, tree: GitTree, directory: Path) -> None:
    """Store a tree, or a blob as the file `blob`, in `directory`; `api` holds the supervisor's
    token.

    Raises ExecutionError(USER) when the server does not have it, Unavailable when the server cannot
    be reached or the transfer breaks off.
    """
    archive = directory.parent / f"{directory.name}.tar"
    try:
        await api.save(f"containers/{container_uuid}/git_tree", archive, params={"hash": tree.hash})
        if tree.kind == BLOB:
            _place_blob(archive, directory / BLOB, tree.hash)
            return
        with archive.open("rb") as file:
            await in_thread(lambda stop, _: unpack(file, directory, stop=stop), is_waited_for=True)
    except RequestError as error:
        raise ExecutionError(
            f"git {tree.kind} {tree.hash}: {error.message}", Failure.INPUT
        ) from error
    finally:
        archive.unlink(missing_ok=True)


def unpack(source: IO[bytes], directory: Path, *, stop: Stop = never) -> None:
    """Unpack an archive of `git archive` into the existing `directory`. Raises Unavailable for an
    incomplete archive, ExecutionError(INFRASTRUCTURE) for one that git cannot have made, Stopped.
    """
    try:
        with ConfinedTree.open(directory) as root, TarReader.open(fileobj=source, mode="r:") as tar:
            for member in members(tar):
                if stop():
                    raise Stopped
                _add(tar, member, root)
            # An archive ends with two empty blocks; one that was cut off between two members has
            # none.
            source.seek(tar.offset)
            if len(source.read(tarfile.BLOCKSIZE)) < tarfile.BLOCKSIZE:
                raise Unavailable("the archive of a git tree was cut off")
    except (tarfile.TarError, EOFError, ValueError) as error:
        raise Unavailable(f"the archive of a git tree is damaged: {error}") from error


def _add(tar: tarfile.TarFile, member: tarfile.TarInfo, root: ConfinedTree) -> None:
    path = posixpath.normpath(member.name)
    if path == ".":
        return
    if path.startswith(("/", "../")) or path == ".." or "\0" in path:
        raise _fault(f"{member.name!r} leads out of it")
    try:
        with root.parent(path, make=0o755) as (at, name):
            if member.isdir():
                # An earlier entry needed the same directory.
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o755, dir_fd=at)
            elif member.issym():
                os.symlink(member.linkname, name, dir_fd=at)
            elif member.isreg() and not member.issparse():
                _write(
                    tar,
                    member,
                    os.open(name, _NEW, 0o755 if member.mode & 0o100 else 0o644, dir_fd=at),
                )
            else:
                raise _fault(f"{member.name!r} has the type {member.type!r}")
    except FileExistsError as error:
        raise _fault(f"{member.name!r} is there twice") from error
    except (NotADirectoryError, IsADirectoryError) as error:
        raise _fault(f"{posixpath.dirname(path)!r} is not a directory") from error
    except OSError as error:
        if error.errno not in _UNFIT:
            raise
        # git has names and links that no file system of Linux has: not a fault of this machine.
        raise ExecutionError(
            f"the git tree has {path[:100]!r}, which cannot be written: {error.strerror}",
            Failure.INPUT,
        ) from error


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, descriptor: int) -> None:
    content = tar.extractfile(member)
    left = member.size
    with os.fdopen(descriptor, "wb") as file:
        while content is not None and (piece := content.read(_CHUNK)):
            file.write(piece)
            left -= len(piece)
    if left:
        raise Unavailable("the archive of a git tree was cut off")


def _place_blob(received: Path, target: Path, blob_hash: str) -> None:
    # The name of a blob is the SHA-1 of "blob SIZE\0" and its content (git-hash-object(1)).
    digest = hashlib.sha1(b"blob %d\0" % received.stat().st_size, usedforsecurity=False)
    with received.open("rb") as file:
        while piece := file.read(_CHUNK):
            digest.update(piece)
    if digest.hexdigest() != blob_hash:
        raise Unavailable(f"git blob {blob_hash}: the received bytes are another object")
    received.rename(target)
    target.chmod(0o644)


def _fault(detail: str) -> ExecutionError:
    return ExecutionError(f"the archive of a git tree: {detail}", Failure.INFRASTRUCTURE)
