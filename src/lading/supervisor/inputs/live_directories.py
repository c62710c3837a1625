"""Live mounts: files and directories of this machine that a container sees as they are.

Other tasks may write to a live root at the same time, and may put symbolic links there. A place is
therefore opened from the directory of its root on, element by element, without following links
(`process.confined`), and mounted by its descriptor: what happens to its path afterwards does not
matter. Commands act as the owner of the root and with its group, neither of which may be root of
the machine where they may write: they could leave programs that run as root. Files of the primary
group of the owner, which the owner makes, can be written as well.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat
from collections.abc import Callable, Mapping
from pathlib import Path

from lading.core.containers.mounting.mount_plan import BindMount
from lading.core.containers.mounting.mount_steps import LivePath
from lading.core.errors import ExecutionError, Failure
from lading.process.confined import ConfinedTree
from lading.supervisor.engines import Bind, LiveSource
from lading.supervisor.rootless import entered
from lading.supervisor.supervisor_config import LiveRoot


def primary_group(user: int) -> int | None:
    """The id of the primary group of a user of this machine; None for an unknown user."""
    try:
        return pwd.getpwuid(user).pw_gid
    except KeyError:
        return None


class LiveDirectories:
    """The live mounts of one container. `roots` are those of this machine, by name; `group_of`
    finds the primary group of a user.
    """

    def __init__(
        self,
        roots: Mapping[str, LiveRoot],
        group_of: Callable[[int], int | None] = primary_group,
    ) -> None:
        self._roots = roots
        self._group_of = group_of
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

    def bind(self, mount: BindMount, live_path: LivePath) -> Bind:
        """The bind of a mount, whose source stays open until `close`. Raises ExecutionError naming
        the mount.
        """
        directory = self.directory(live_path.root)
        if entered() is not None:
            raise _fault(
                mount, "containers of an ordinary user see no live directory", Failure.NODE
            )
        if not mount.readonly and not self._roots[live_path.root].is_writable:
            raise _fault(mount, f"{live_path.root} is not writable on this machine", Failure.NODE)
        name = f"{live_path.root}/{live_path.path}".rstrip("/")
        try:
            with ConfinedTree.open(directory) as top:
                owner = top.stat()
                if not mount.readonly and (fault := self._fault_of_owner(owner, directory)):
                    raise _fault(mount, fault, Failure.NODE)
                descriptor = _open(top, live_path.path)
        except OSError as error:
            raise _fault(mount, f"{name}: {_reason(error)}", Failure.USER) from error
        self._opened.append(descriptor)
        group = self._group_of(owner.st_uid)
        # Root's group is never given away: a program could be left that runs with it.
        further = () if group in (None, 0, owner.st_gid) or mount.readonly else (group,)
        live = LiveSource(descriptor, owner.st_uid, owner.st_gid, further)
        return Bind(f"/proc/self/fd/{descriptor}", mount.target, mount.readonly, live=live)

    def _fault_of_owner(self, owner: os.stat_result, directory: Path) -> str:
        """The reason why no command may write as the owner of a root, and the remedy; "" if it
        may.
        """
        if owner.st_uid == 0:
            return (
                f"{directory} belongs to root; give it to the user and the group that tasks are to "
                f"write as: chown -R USER:GROUP {directory}"
            )
        if owner.st_gid == 0:
            group = self._group_of(owner.st_uid) or owner.st_uid
            return (
                f"{directory} belongs to the group of root; give it to a group of its user: "
                f"chown -R {owner.st_uid}:{group} {directory}"
            )
        return ""

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


def _fault(mount: BindMount, detail: str, failure: Failure) -> ExecutionError:
    return ExecutionError(f"mounts[{mount.target}]: {detail}", failure)
