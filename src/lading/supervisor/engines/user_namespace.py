"""User namespaces of containers: ranges of user ids, and idmapped mounts.

A container in a user namespace of its own has its ids like any other, also the large ones of its
image (`core.user_ids`). Outside, they are ids of no user: nothing of the machine belongs
to its root. Each of our processes has its own range, so two containers never share one at the same
time.

Files stay on disk with their owners: layers, binds and the files of the container's streams are
shown through idmapped mounts (Linux 5.12). A file of root on disk is one of the container's root,
and a file that it writes to its output is root's on disk, as without user namespaces. The
container's root has no rights outside, so it cannot pass directories that are closed to others:
everything for it is mounted in a small directory that everybody may pass, in the supervisor's mount
namespace.

    <machine>/ids                        locks: the range of ids of each process
    <machine>/containers/<name>/         a file system in memory:
                                rootfs   the root
                                gate     a named pipe with the start line
                                binds/   the mounts, numbered; layers/ those of its image

On a file system that cannot be idmapped (NFS, Lustre) the container has the machine's ids, if the
policy allows, as on a kernel that is too old. A FUSE mount is shown unmapped: everybody may read
the mount of collections.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
import stat
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path

from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account
from lading.core.user_ids import Extent, extents, large
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, LiveSource
from lading.supervisor.engines.id_mappings import (
    NO_DEVICES,
    NO_SUID,
    READ_ONLY,
    Mapping,
    attach_mount,
    copy_mount,
    give_back,
    hidden_proc,
    make_namespace,
    mount_points,
    reopen,
    take_mapping,
)

MACHINE = Path("/run/lading")
# Others may pass these directories, but not list them.
_PASSABLE = 0o711
# The device cgroup and the choice of devices control access; the mode lets every user of the
# container open them.
_DEVICE_MODE = 0o666
_BINDS, _LAYERS = "binds", "layers"


class UserNamespacePolicy(StrEnum):
    """`Containers.UserNamespaces`."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


def hold_in_memory(machine: Path = MACHINE) -> None:
    """Mount a file system in memory at the directories of containers; for a private mount namespace
    only.

    Directories on disk take most of the time of idmapped mounts: a mount point is made and removed
    for each. The file system ends with the last process of the mount namespace, including leftovers
    of a killed process. Raises OSError.
    """
    containers = machine / "containers"
    for directory in (machine, containers):
        directory.mkdir(parents=True, exist_ok=True)
        directory.chmod(_PASSABLE)
    linux.mount(
        "tmpfs",
        str(containers),
        "tmpfs",
        f"mode={_PASSABLE:o}",
        flags=linux.MS_NODEV | linux.MS_NOSUID,
    )


class UserNamespace:
    """The mounts of one container, mapped to a range of ids of its own. `run`: the container's run
    directory.
    """

    def __init__(self, run: Path, machine: Path = MACHINE) -> None:
        # A hash: the path of the run directory may be longer than a name can be.
        self.directory = (
            machine / "containers" / hashlib.blake2s(os.fsencode(run), digest_size=12).hexdigest()
        )
        """Parent of all its mounts, which everybody may pass."""
        self._machine = machine
        self._shown = 0
        self._namespace = self._own = -1
        self._mapping: Mapping | None = None
        self.root = 0
        """The id of the container's root on the machine."""
        self.extents: tuple[Extent, ...] = ()

    def open(self, ids: Collection[int] = ()) -> None:
        """Take a range of ids, with the large `ids` of an image, and make the directory.

        Raises OSError when that is not possible, ExecutionError(IMAGE) for too many large ids.
        """
        if fault := _hidden_proc():
            raise OSError(errno.EPERM, fault)
        # Opened anew with more ids, it keeps its range.
        mapping = self._mapping = self._mapping or take_mapping(self._machine)
        self.root, self._namespace = mapping.first, mapping.namespace
        self.extents = extents(mapping.first, ids)
        if ids:
            self._close_own()
            self._namespace = self._own = make_namespace(self.extents)
        self._hold()

    def _hold(self) -> None:
        """Make the directory, a file system in memory. Raises OSError."""
        try:
            self._make(self.directory)
        except FileNotFoundError:
            # The first container since the machine was started.
            self._machine.mkdir(parents=True, exist_ok=True)
            self._make(self._machine)
            self._make(self.directory.parent)
            self._make(self.directory)
        # One unmount detaches all mounts below: the kernel takes as long for one as for ten.
        linux.mount(
            "tmpfs", str(self.directory), "tmpfs", f"mode={_PASSABLE:o}", flags=linux.MS_NOSUID
        )

    @property
    def mapping(self) -> Mapping | None:
        """Its range of ids."""
        return self._mapping

    def adopt(self, first: int, *, namespace: int, lock: int) -> None:
        """Go on with the container of another process, which had the range of ids that begins with
        `first`. The descriptors of its namespace and lock belong to this object.
        """
        self._mapping = Mapping(first, namespace, os.getpid(), lock, self._machine)
        self.root, self._namespace = first, namespace

    def layers(self, paths: Sequence[str]) -> list[str]:
        """Paths of the layers for the container. Raises OSError."""
        shown: list[str] = []
        place = self._make(self.directory / _LAYERS)
        for number, path in enumerate(paths):
            target = place / str(number)
            # The ranks of a gang share the layers.
            if not target.exists():
                target.mkdir()
                attach_mount(copy_mount(path, namespace=self._namespace), str(target))
            shown.append(str(target))
        return shown

    def lacking(self, account: Account) -> frozenset[int]:
        """The large ids of an account that the container does not have."""
        ids = large((account.uid, account.gid, *account.groups))
        return ids.difference(extent.inside for extent in self.extents)

    def rootfs(self, name: str = "rootfs") -> Path:
        """The directory to mount a root on. Raises OSError."""
        return self._make(self.directory / name)

    def mount_overlay(self, target: str, *, lower: Sequence[str], upper: str, work: str) -> None:
        """Mount the root of the container (`linux.mount_overlay`). Raises OSError."""
        linux.mount_overlay(target, lower=lower, upper=upper, work=work)

    def own(self, path: Path) -> None:
        """Change the owner of a file or directory to the container's root. Raises OSError."""
        os.chown(path, self.root, self.root)

    def binds(self, binds: Sequence[Bind]) -> tuple[Bind, ...]:
        """The same binds with idmapped sources. Raises OSError."""
        return tuple(structs.replace(bind, source=str(self._show(bind))) for bind in binds)

    def devices(self, devices: Sequence[Device]) -> tuple[Bind, ...]:
        """Device files of its own, usable by all users of the container. Raises OSError."""
        if not devices:
            return ()
        directory = self._make(self.directory / "devices")
        binds = []
        for number, device in enumerate(devices):
            file, status = directory / str(number), Path(device.source).stat()
            os.mknod(file, stat.S_IFMT(status.st_mode) | _DEVICE_MODE, status.st_rdev)
            file.chmod(_DEVICE_MODE)
            self.own(file)
            binds.append(Bind(str(file), device.target, False))
        return tuple(binds)

    def gate(self) -> tuple[str, int]:
        """A named pipe for the container to read, and a descriptor of both of its ends. Raises
        OSError.
        """
        place = self.directory / "gate"
        os.mkfifo(place, 0o600)
        self.own(place)
        # Both ends in one descriptor, so that opening does not wait for a reader (fifo(7)).
        return str(place), os.open(place, os.O_RDWR | os.O_CLOEXEC)

    def stream(self, descriptor: int, *, readonly: bool) -> int:
        """Open the file of a stream once more, so that it belongs to the container's root. Raises
        OSError.
        """
        attributes = READ_ONLY if readonly else 0
        try:
            return reopen(descriptor, namespace=self._namespace, attributes=attributes)
        except OSError:
            if not linux.is_fuse(f"/proc/self/fd/{descriptor}"):
                raise
        return reopen(descriptor, attributes=attributes)

    def close(self) -> None:
        """Remove the mounts and the directory; also those of a killed process. Raises OSError."""
        self._close_own()
        self._shown = 0
        with contextlib.suppress(FileNotFoundError):
            # Mounts may lie on top of each other when the container was made twice.
            while self._unmount():
                pass
            # rmdir refuses a directory that still contains something.
            self.directory.rmdir()
        # After an error it stays taken: a mount of the container may be left.
        if self._mapping is not None:
            give_back(self._mapping)
            self._mapping = None

    def _close_own(self) -> None:
        if self._own >= 0:
            os.close(self._own)
        self._own = -1

    def _unmount(self) -> bool:
        """Unmount the topmost mount of the directory; False when there is none, or without
        permission. Raises OSError.
        """
        try:
            linux.unmount(str(self.directory))
        except OSError as error:
            # EINVAL: not a mount point (umount(2)).
            if error.errno not in (errno.EINVAL, errno.EPERM):
                raise
            return False
        return True

    def _make(self, directory: Path) -> Path:
        """A directory that every user may pass, independent of the umask. Raises OSError."""
        directory.mkdir(exist_ok=True)
        directory.chmod(_PASSABLE)
        return directory

    def _show(self, bind: Bind) -> Path:
        mount = self._mount(bind) if bind.live is None else self._mount_live(bind, bind.live)
        target = self.directory / _BINDS
        if self._shown == 0:
            self._make(target)
        target /= str(self._shown)
        self._shown += 1
        if Path(bind.source).is_dir():
            target.mkdir()
        else:
            target.touch()
        attach_mount(mount, str(target))
        return target

    def _mount(self, bind: Bind) -> int:
        attributes = _attributes(bind)
        try:
            return copy_mount(bind.source, namespace=self._namespace, attributes=attributes)
        except OSError:
            if not self._does_unmapped(bind):
                raise
        return copy_mount(bind.source, attributes=attributes)

    def _mount_live(self, bind: Bind, live: LiveSource) -> int:
        """The mount of a directory of users: the container's root has the files of one user, and
        makes files as this user. Files of all others belong to nobody.
        """
        user = Extent(live.user, self.root, 1)
        groups = (
            Extent(group, self.root + number, 1)
            for number, group in enumerate((live.group, *live.further_groups))
        )
        namespace = make_namespace((user,), groups=tuple(groups))
        try:
            return copy_mount(bind.source, namespace=namespace, attributes=_attributes(bind))
        finally:
            os.close(namespace)

    def _does_unmapped(self, bind: Bind) -> bool:
        """Whether a mount may be shown unmapped; before Linux 6.3 tmpfs cannot be idmapped.

        That is a mount of collections, a file that everybody may read, or an empty file system,
        which is then given to the container's root. Raises OSError.
        """
        source = Path(bind.source)
        if linux.is_fuse(bind.source):
            return True
        if bind.readonly:
            return source.is_file() and bool(source.stat().st_mode & stat.S_IROTH)
        if not source.is_mount() or any(source.iterdir()):
            return False
        mode = stat.S_IMODE(source.stat().st_mode)
        self.own(source)
        # chown(2) may clear bits of the mode.
        source.chmod(mode)
        return True


def _attributes(bind: Bind) -> int:
    return NO_SUID | NO_DEVICES | (READ_ONLY if bind.readonly else 0)


def refuse(policy: str, error: OSError) -> str:
    """Note for a container without a user namespace. Raises ExecutionError(NODE) when the policy
    requires one.
    """
    reason = f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)
    if policy == UserNamespacePolicy.ALWAYS:
        raise ExecutionError(
            "the container cannot have a user namespace of its own,"
            f" and Containers.UserNamespaces is always: {reason}",
            Failure.NODE,
        ) from error
    return f"the container has no user namespace of its own, its root is the machine's: {reason}"


# Constant for the life of the process.
@functools.lru_cache(maxsize=1)
def _hidden_proc() -> str:
    return hidden_proc(mount_points())
