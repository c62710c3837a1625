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
import ctypes
import errno
import fcntl
import functools
import hashlib
import os
import stat
import struct
from collections.abc import Collection, Sequence
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import structs

from lading.core.errors import ExecutionError, Failure
from lading.core.images import Account
from lading.core.user_ids import SIZE, Extent, extents, large
from lading.supervisor import linux
from lading.supervisor.engines import Bind, Device, LiveSource

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
    place = machine / "containers"
    for one in (machine, place):
        one.mkdir(parents=True, exist_ok=True)
        one.chmod(_PASSABLE)
    linux.mount(
        "tmpfs", str(place), "tmpfs", f"mode={_PASSABLE:o}", flags=linux.MS_NODEV | linux.MS_NOSUID
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
        return ids.difference(one.inside for one in self.extents)

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
        place = self._make(self.directory / "devices")
        made = []
        for number, device in enumerate(devices):
            file, there = place / str(number), Path(device.source).stat()
            os.mknod(file, stat.S_IFMT(there.st_mode) | _DEVICE_MODE, there.st_rdev)
            file.chmod(_DEVICE_MODE)
            self.own(file)
            made.append(Bind(str(file), device.target, False))
        return tuple(made)

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

    def _make(self, place: Path) -> Path:
        """A directory that every user may pass, independent of the umask. Raises OSError."""
        place.mkdir(exist_ok=True)
        place.chmod(_PASSABLE)
        return place

    def _show(self, bind: Bind) -> Path:
        mount = self._mount(bind) if bind.live is None else self._mount_live(bind, bind.live)
        place = self.directory / _BINDS
        if self._shown == 0:
            self._make(place)
        place /= str(self._shown)
        self._shown += 1
        if Path(bind.source).is_dir():
            place.mkdir()
        else:
            place.touch()
        attach_mount(mount, str(place))
        return place

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
            Extent(one, self.root + number, 1)
            for number, one in enumerate((live.group, *live.further_groups))
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
        place = Path(bind.source)
        if linux.is_fuse(bind.source):
            return True
        if bind.readonly:
            return place.is_file() and bool(place.stat().st_mode & stat.S_IROTH)
        if not place.is_mount() or any(place.iterdir()):
            return False
        mode = stat.S_IMODE(place.stat().st_mode)
        self.own(place)
        # chown(2) may clear bits of the mode.
        place.chmod(mode)
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


# Above the ids that distributions give to users and to subordinate ranges (/etc/subuid).
FIRST = 3 << 30
SLOTS = 1023
"""Number of ranges from `FIRST` on. One more would end with 2**32 - 1, which is the id "none"."""
# Of linux/sched.h.
_CLONE_NEWUSER, _CLONE_VM, _CLONE_VFORK = 0x10000000, 0x100, 0x4000
# __WALL of wait(2): also wait for a child that sends no SIGCHLD, as this one.
_WAIT_ALL = 0x40000000
# Bytes of the stack of the child, which only calls _exit.
_STACK = 1 << 15
# System call numbers of open_tree, move_mount and mount_setattr; the same on all architectures.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
# AT_FDCWD: a path relative to the working directory.
_HERE = -100
# OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC, AT_EMPTY_PATH, MOVE_MOUNT_F_EMPTY_PATH.
_CLONE, _CLOEXEC, _EMPTY_PATH, _MOVE_EMPTY_PATH = 0x1, 0x80000, 0x1000, 0x4
READ_ONLY, NO_SUID, NO_DEVICES, _IDMAP = 0x1, 0x2, 0x4, 0x100000
"""Attributes of mount_setattr(2)."""
# struct flock of fcntl(2) on 64-bit machines: type, whence, start, length, process.
_LOCK = "hhqqi4x"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]


class Mapping(msgspec.Struct, frozen=True):
    """A range of ids, which one container has at a time, and a user namespace with it."""

    first: int
    """The first id of the range on the machine."""
    namespace: int
    owner: int
    """Process that took the range; a child of a fork must take its own."""
    lock: int
    directory: Path
    """Has the file of the lock."""

    def close(self) -> None:
        """Give the range back to the machine."""
        os.close(self.lock)
        os.close(self.namespace)


# Ranges of this process that no container has now: the next one is spared the making.
_spare: list[Mapping] = []
# Ranges kept so; a process that ran many containers at once gives the others back.
_MOST_SPARE = 32


def take_mapping(directory: Path) -> Mapping:
    """A range that no other container of the machine has, also none of this process. Raises OSError
    when user namespaces are not available.

    `directory` has the lock file that all processes of the machine share; a range is free when its
    process has ended.
    """
    # Inherited by fork. Closing the descriptors does not release the parent's lock: the open file
    # description is shared.
    for mapping in [one for one in _spare if one.owner != os.getpid()]:
        _spare.remove(mapping)
        mapping.close()
    for mapping in _spare:
        if mapping.directory == directory:
            _spare.remove(mapping)
            return mapping
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    lock = os.open(directory / "ids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        first = FIRST + take_slot(lock) * SIZE
        return Mapping(first, make_namespace(extents(first)), os.getpid(), lock, directory)
    except OSError:
        os.close(lock)
        raise


def give_back(mapping: Mapping) -> None:
    """Let another container have the range; nothing of the former one may be left."""
    if len(_spare) < _MOST_SPARE:
        _spare.append(mapping)
    else:
        mapping.close()


def take_slot(lock: int, slots: int = SLOTS) -> int:
    """Lock a number that no other process has, in the file `lock`. Raises OSError when all are
    taken.
    """
    for step in range(slots):
        # Processes start at different places, so that they seldom try the same number.
        slot = (os.getpid() + step) % slots
        try:
            fcntl.fcntl(
                # A lock of the open file description, as locks of fcntl's older kind end with any
                # close of the file. One byte of the file for each number.
                lock,
                fcntl.F_OFD_SETLK,
                struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0),
            )
        # POSIX allows either error for a lock that another process holds.
        except (BlockingIOError, PermissionError):
            continue
        return slot
    raise OSError(errno.EAGAIN, f"all {slots} ranges of user ids are taken")


def make_namespace(users: Sequence[Extent], *, groups: Sequence[Extent] = ()) -> int:
    """A descriptor of a new user namespace with these ids of users, and of groups (default: the
    same). Raises OSError.

    It is made by a child that shares this process's memory (CLONE_VM) and ends at once: a fork
    would copy the page tables.
    """
    stack = ctypes.create_string_buffer(_STACK)
    # The ABI of x86-64 and aarch64 requires a stack aligned to 16 bytes; it grows downwards.
    top = (ctypes.addressof(stack) + _STACK) & ~15
    flags = _CLONE_NEWUSER | _CLONE_VM | _CLONE_VFORK
    child = _libc.clone(ctypes.cast(_libc._exit, ctypes.c_void_p), top, flags, None)
    if child < 0:
        raise _error("a user namespace")
    # CLONE_VFORK: the child has ended here. Its namespace exists until waitpid.
    try:
        for name, rows in (("uid_map", users), ("gid_map", groups or users)):
            descriptor = os.open(f"/proc/{child}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            lines = "".join(f"{row.inside} {row.outside} {row.size}\n" for row in rows)
            try:
                # The kernel takes the whole table in one call.
                os.write(descriptor, lines.encode())
            finally:
                os.close(descriptor)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.waitpid(child, _WAIT_ALL)


def copy_mount(path: str, *, namespace: int = -1, attributes: int = 0) -> int:
    """A detached mount of a directory or file, with `attributes` added, and idmapped by
    `namespace`.

    Raises OSError: EINVAL or EPERM when the file system does not support idmapping.
    """
    mount = _libc.syscall(_OPEN_TREE, _HERE, os.fsencode(path), _CLONE | _CLOEXEC)
    if mount < 0:
        raise _error(path)
    wanted = attributes | (_IDMAP if namespace >= 0 else 0)
    if wanted:
        # struct mount_attr: attributes to set, to clear, propagation, user namespace.
        argument = struct.pack("QQQQ", wanted, 0, 0, max(namespace, 0))
        if _libc.syscall(_MOUNT_SETATTR, mount, b"", _EMPTY_PATH, argument, len(argument)) != 0:
            error = _error(path)
            os.close(mount)
            raise error
    return int(mount)


def attach_mount(mount: int, target: str) -> None:
    """Attach a detached mount at a directory or file, and close its descriptor. Raises OSError."""
    try:
        if (
            _libc.syscall(_MOVE_MOUNT, mount, b"", _HERE, os.fsencode(target), _MOVE_EMPTY_PATH)
            != 0
        ):
            raise _error(target)
    finally:
        os.close(mount)


def reopen(descriptor: int, *, namespace: int = -1, attributes: int = 0) -> int:
    """The same file opened with the same flags through a mount of its own. Raises OSError."""
    mount = copy_mount(f"/proc/self/fd/{descriptor}", namespace=namespace, attributes=attributes)
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND)
        return os.open(f"/proc/self/fd/{mount}", flags | os.O_CLOEXEC)
    finally:
        os.close(mount)


def fault_of(directory: Path) -> str:
    """Reason why containers cannot have their own user ids over files of this directory, or ""."""
    try:
        namespace = make_namespace(extents(FIRST))
    except OSError as error:
        return (
            f"this kernel makes no user namespaces ({error.strerror});"
            " see sysctl user.max_user_namespaces"
        )
    try:
        os.close(copy_mount(str(directory), namespace=namespace))
    except OSError as error:
        return (
            f"the file system of {directory} cannot be mapped to other user ids ({error.strerror})"
        )
    finally:
        os.close(namespace)
    return hidden_proc(mount_points())


def hidden_proc(points: Sequence[str]) -> str:
    """Reason why a user namespace may not mount its own /proc, or "".

    The kernel refuses a new /proc when files of an existing one are hidden by mounts, as in a
    container. `points` are the mount points.
    """
    covered = [one for one in points if one.startswith("/proc/") and not _is_empty(one)]
    return (
        f"parts of /proc are hidden here ({', '.join(covered[:3])}), as in a container"
        if covered
        else ""
    )


def mount_points() -> list[str]:
    """The mount points of this mount namespace; empty when they cannot be read."""
    # Without /proc no mount points are known.
    with contextlib.suppress(OSError):
        return [
            line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ]
    return []


def _is_empty(point: str) -> bool:
    """Whether a mount point is a directory of the kernel that is always empty; a mount there hides
    nothing.
    """
    return point in ("/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
