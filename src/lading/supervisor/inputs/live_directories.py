"""Live mounts: files and directories of this machine that a container sees as they are.

Other tasks may write to a live root at the same time, and may put symbolic links there. A place is
therefore opened from the directory of its root on, element by element, without following links
(`lading.confined`), and mounted by its descriptor: what happens to its path afterwards does not
matter. Commands act as the owner of the root, which must not be root of the machine where they may
write: they could leave programs that run as root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from lading.confined import ConfinedTree
from lading.core.containers.mount_plan import BindMount, LivePath
from lading.core.errors import ExecutionError, Failure
from lading.supervisor.engines import Bind, LiveSource
from lading.supervisor.supervisor_config import LiveRoot


class LiveDirectories:
    """The live mounts of one container. `roots` are those of this machine, by name."""

    def __init__(self, roots: Mapping[str, LiveRoot]) -> None:
        self._roots = roots
        self._opened: list[int] = []

    def directory(self, root: str) -> Path:
        """The directory of a root. Raises ExecutionError(NODE) where this machine has none."""
        if root not in self._roots:
            raise ExecutionError(
                f"the configuration of this machine offers no live directory {root}"
                " (TES.FileRoots)",
                Failure.NODE,
            )
        return Path(self._roots[root].directory)

    def bind(self, mount: BindMount, place: LivePath) -> Bind:
        """The bind of a mount, whose source stays open until `close`. Raises ExecutionError naming
        the mount.
        """
        directory = self.directory(place.root)
        if not mount.readonly and not self._roots[place.root].is_writable:
            raise _fault(mount, f"{place.root} is not writable on this machine", Failure.NODE)
        name = f"{place.root}/{place.path}".rstrip("/")
        try:
            with ConfinedTree.open(directory) as top:
                owner = top.stat()
                if not mount.readonly and owner.st_uid == 0:
                    text = "belongs to root; give it to the user that tasks are to write as (chown)"
                    raise _fault(mount, f"{directory} {text}", Failure.NODE)
                descriptor = _open(top, place.path)
        except OSError as error:
            raise _fault(mount, f"{name}: {_reason(error)}", Failure.USER) from error
        self._opened.append(descriptor)
        live = LiveSource(descriptor, owner.st_uid, owner.st_gid)
        return Bind(f"/proc/self/fd/{descriptor}", mount.target, mount.readonly, live=live)

    def close(self) -> None:
        """Close the sources. Idempotent."""
        while self._opened:
            os.close(self._opened.pop())


def _open(top: ConfinedTree, path: str) -> int:
    """A descriptor of the directory or regular file at a path. Raises OSError."""
    if stat.S_ISDIR(top.stat(path).st_mode):
        return os.dup(top.descriptor) if not path else _directory(top, path)
    return top.open_file(path)


def _directory(top: ConfinedTree, path: str) -> int:
    with top.open_tree(path) as tree:
        return os.dup(tree.descriptor)


def _reason(error: OSError) -> str:
    if isinstance(error, NotADirectoryError) or error.errno in (errno.ELOOP, errno.EINVAL):
        return "is no directory or regular file, or lies behind a symbolic link"
    return error.strerror or str(error)


def _fault(mount: BindMount, text: str, failure: Failure) -> ExecutionError:
    return ExecutionError(f"mounts[{mount.target}]: {text}", failure)
