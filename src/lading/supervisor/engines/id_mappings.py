"""Ranges of user ids of containers, user namespaces with them, and idmapped mounts (Linux 5.12).

Each process takes ranges by locks in the directory `ids`, so two containers never share one at the
same time.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import msgspec

from lading.core.user_ids import SIZE, Extent, extents

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
# Ranges kept so; a process that ran many containers at once gives the others back.
_MOST_SPARE = 32


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


def take_mapping(directory: Path) -> Mapping:
    """A range that no other container of the machine has, also none of this process. Raises OSError
    when user namespaces are not available.

    `directory` has the lock file that all processes of the machine share; a range is free when its
    process has ended.
    """
    # Inherited by fork. Closing the descriptors does not release the parent's lock: the open file
    # description is shared.
    for mapping in [mapping for mapping in _spare if mapping.owner != os.getpid()]:
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
    covered = [point for point in points if point.startswith("/proc/") and not _is_empty(point)]
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


def _error(subject: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), subject)
