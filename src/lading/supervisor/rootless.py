"""The namespaces in which an ordinary user has the native engine.

A process of a user leaves for a user namespace and a mount namespace of its own. The id of the user
is root there, so the process may mount: layers, overlays, binds, file systems in memory. Everything
that the native engine does as root of the machine it then does as this root. Outside, the process
has the rights of the user and no more. The namespaces end with the last process in them.

The id of the user is mapped, and with it the subordinate ids of the user, where the machine has any
(`subordinate_ids`). Files of an image then have its owners, and its USER runs the command. With one
id alone all files belong to it, and each command runs as root of its container. A container has a
user namespace of its own below this one (`engines.owner_namespace`).

    <run>/.mounts/    the directory `Entered.machine`, empty outside of the namespaces

`enter` changes a process of one thread for good. Whether a machine allows it is found by trying, in
a process that ends afterwards (`rootless_trial`).
"""

from __future__ import annotations

import ctypes
import os
from enum import StrEnum
from pathlib import Path

import msgspec

from lading.core.user_ids import Extent, count_ids
from lading.supervisor import linux
from lading.supervisor.limits.cgroup import Hierarchy
from lading.supervisor.subordinate_ids import IdMap, IdMapper

MOUNTS = ".mounts"
"""Directory beside the run directories, below which containers have their mounts."""
_CLONE_NEWUSER = 0x10000000
_libc = ctypes.CDLL(None, use_errno=True)


class RootKind(StrEnum):
    """How a container gets a root that it may change."""

    OVERLAY = "overlay"
    FUSE_OVERLAY = "fuse-overlayfs"
    COPY = "copy"


class Entered(msgspec.Struct, frozen=True):
    """The namespaces that this process has entered."""

    user: int
    """The id of the user on the machine."""
    machine: Path
    """Parent of the directories of containers."""
    root_kind: RootKind = RootKind.OVERLAY
    hierarchy: Hierarchy | None = None
    """The control group that systemd has delegated to the user, if there is one."""
    extents: tuple[Extent, ...] = (Extent(0, 0, 1),)
    """The ids of a container, each of which is the same one in the namespace of this process."""

    @property
    def ids(self) -> int:
        """Number of ids of a container: it has those from 0 to `ids` - 1."""
        return count_ids(self.extents)


_entered: list[Entered] = []


def entered() -> Entered | None:
    """The namespaces that this process, or one that it was forked from, has entered."""
    return _entered[0] if _entered else None


def enter(
    run_root: Path,
    root_kind: RootKind = RootKind.OVERLAY,
    *,
    hierarchy: Hierarchy | None = None,
    ids: IdMap | None = None,
) -> None:
    """Make this process root of a user namespace and of a mount namespace of its own. `run_root` is
    the parent of run directories, `hierarchy` the control group that is delegated to the user;
    `ids` are its subordinate ids. Does nothing in a process that has entered already.

    Raises OSError; the process can then do no more work.
    """
    if _entered:
        return
    user, group = os.geteuid(), os.getegid()
    machine = run_root.absolute() / MOUNTS
    machine.mkdir(mode=0o700, parents=True, exist_ok=True)
    ids = ids or IdMap()
    if ids.users:
        with IdMapper(ids) as mapper:
            _unshare()
            mapper.map()
    else:
        _unshare()
        # Without root a table of groups is taken from a process only that can set none (since
        # Linux 3.19, user_namespaces(7)).
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    linux.receive_mounts()
    _entered.append(Entered(user, machine, root_kind, hierarchy, ids.extents))


def _unshare() -> None:
    if _libc.unshare(_CLONE_NEWUSER | linux.CLONE_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), "a user namespace")
