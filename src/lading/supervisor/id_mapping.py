"""Ranges of user ids, user namespaces, and mounts that show a file's owner as another (Linux 5.12).

A container in a user namespace of its own has the ids 0 to `SIZE` - 1 like any other, and outside
they are ids that nobody has: what its root owns belongs to no one of the machine. Each process of
ours has a range of its own, so that two containers at a time never share one. Files stay on disk as
their owners wrote them: an idmapped mount shows those of root as those of the range's first id.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

FIRST = 3 << 30
SIZE = 1 << 20
"""Ids of a range: images hold ids of directory services too, which are larger than 65,535."""
SLOTS = 1023
"""Ranges from `FIRST` on. The one after the last has the id that means none."""
_CLONE_NEWUSER, _CLONE_VM, _CLONE_VFORK = 0x10000000, 0x100, 0x4000
_WAIT_ALL = 0x40000000
_STACK = 1 << 15
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
"""Numbers of system calls, which are the same on every kind of machine."""
_HERE = -100
_CLONE, _CLOEXEC, _EMPTY_PATH, _MOVE_EMPTY_PATH = 0x1, 0x80000, 0x1000, 0x4
READ_ONLY, NO_SUID, NO_DEVICES, _IDMAP = 0x1, 0x2, 0x4, 0x100000
"""Attributes of mounts."""
_LOCK = "hhqqi4x"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]


@dataclass(frozen=True, slots=True)
class IdRange:
    """User and group ids of the machine that are those from 0 on in a container."""

    first: int
    size: int = SIZE


@dataclass(frozen=True, slots=True)
class Mapping:
    """The range of this process, and a user namespace that has it."""

    ids: IdRange
    namespace: int
    owner: int
    """Process that took the range: one forked from it has to take its own."""
    lock: int


_taken: list[Mapping] = []


def own_mapping(directory: Path) -> Mapping:
    """The range of this process, taken at the first call. Raises OSError where there are no user
    namespaces.

    `directory` has the locks by which all processes of the machine agree; a range is free when its
    process has ended.
    """
    if _taken and _taken[0].owner != os.getpid():
        for descriptor in (_taken[0].lock, _taken[0].namespace):
            os.close(descriptor)
        _taken.clear()
    if not _taken:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        lock = os.open(directory / "ids", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            ids = IdRange(FIRST + take_slot(lock) * SIZE)
            _taken.append(Mapping(ids, make_namespace(ids), os.getpid(), lock))
        except OSError:
            os.close(lock)
            raise
    return _taken[0]


def take_slot(lock: int, slots: int = SLOTS) -> int:
    """Lock a number that nobody else has, in the file `lock`. Raises OSError when all are taken."""
    for step in range(slots):
        slot = (os.getpid() + step) % slots
        try:
            fcntl.fcntl(
                lock, fcntl.F_OFD_SETLK, struct.pack(_LOCK, fcntl.F_WRLCK, os.SEEK_SET, slot, 1, 0)
            )
        except (BlockingIOError, PermissionError):
            continue
        return slot
    raise OSError(errno.EAGAIN, f"all {slots} ranges of user ids are taken")


def make_namespace(ids: IdRange) -> int:
    """A descriptor of a new user namespace with these ids. Raises OSError.

    A child that shares this process's memory and ends at once: a fork would copy the tables of all
    that memory.
    """
    stack = ctypes.create_string_buffer(_STACK)
    top = (ctypes.addressof(stack) + _STACK) & ~15
    flags = _CLONE_NEWUSER | _CLONE_VM | _CLONE_VFORK
    child = _libc.clone(ctypes.cast(_libc._exit, ctypes.c_void_p), top, flags, None)
    if child < 0:
        raise _error("a user namespace")
    # It has ended, but its namespace is there until it is waited for.
    try:
        for name in ("uid_map", "gid_map"):
            descriptor = os.open(f"/proc/{child}/{name}", os.O_WRONLY | os.O_CLOEXEC)
            try:
                os.write(descriptor, f"0 {ids.first} {ids.size}\n".encode())
            finally:
                os.close(descriptor)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.waitpid(child, _WAIT_ALL)


def copy_mount(path: str, *, namespace: int = -1, attributes: int = 0) -> int:
    """A mount of a directory or file that is attached nowhere, with more attributes, and mapped by
    `namespace`.

    Raises OSError: EINVAL or EPERM where the file system cannot be mapped.
    """
    mount = _libc.syscall(_OPEN_TREE, _HERE, os.fsencode(path), _CLONE | _CLOEXEC)
    if mount < 0:
        raise _error(path)
    wanted = attributes | (_IDMAP if namespace >= 0 else 0)
    if wanted:
        told = struct.pack("QQQQ", wanted, 0, 0, max(namespace, 0))
        if _libc.syscall(_MOUNT_SETATTR, mount, b"", _EMPTY_PATH, told, len(told)) != 0:
            error = _error(path)
            os.close(mount)
            raise error
    return int(mount)


def attach_mount(mount: int, target: str) -> None:
    """Show a mount at a directory or file, and close its descriptor. Raises OSError."""
    try:
        if (
            _libc.syscall(_MOVE_MOUNT, mount, b"", _HERE, os.fsencode(target), _MOVE_EMPTY_PATH)
            != 0
        ):
            raise _error(target)
    finally:
        os.close(mount)


def reopen(descriptor: int, *, namespace: int = -1, attributes: int = 0) -> int:
    """The same file opened in the same way, but through a mount of its own. Raises OSError."""
    mount = copy_mount(f"/proc/self/fd/{descriptor}", namespace=namespace, attributes=attributes)
    try:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & (os.O_ACCMODE | os.O_APPEND)
        return os.open(f"/proc/self/fd/{mount}", flags | os.O_CLOEXEC)
    finally:
        os.close(mount)


def fault_of(directory: Path) -> str:
    """Why containers cannot have user ids of their own over files of this directory; "" when they
    can.
    """
    try:
        namespace = make_namespace(IdRange(FIRST))
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
    """Why a user namespace may not have a /proc of its own; "" when it may.

    The kernel refuses one where files of the machine's are hidden, as in a container. `points`:
    where file systems are mounted.
    """
    covered = [one for one in points if one.startswith("/proc/") and not _is_empty(one)]
    return (
        f"parts of /proc are hidden here ({', '.join(covered[:3])}), as in a container"
        if covered
        else ""
    )


def mount_points() -> list[str]:
    """Where file systems are mounted in this mount namespace."""
    with contextlib.suppress(OSError):
        return [
            line.split(" ")[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()
        ]
    return []


def _is_empty(point: str) -> bool:
    """Whether it lies on a directory of the kernel that is always empty, on which anything may be
    mounted.
    """
    return point in ("/proc/sys/fs/binfmt_misc", "/proc/fs/nfsd")


def _error(what: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)
