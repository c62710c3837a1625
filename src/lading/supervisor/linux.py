"""System calls that Python has no function for, and removal of directories that may contain mounts.

A supervisor first leaves the mount namespace of the machine. Its mounts are visible to it and its
children only and vanish with the last of these processes, also after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lading.process import removal

# Of linux/sched.h and linux/mount.h.
CLONE_NEWNS = 0x20000
MS_NOSUID = 1 << 1
MS_NODEV = 1 << 2
MS_REC = 1 << 14
MS_SLAVE = 1 << 19
# Of umount2(2), `sys/mount.h`.
MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)
# prctl(2).
_PR_SET_PDEATHSIG = 1
# Characters that the kernel writes as octal escapes in mountinfo (proc(5)).
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
# FUSE mounts below these belong to the machine (for example lxcfs).
_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))
# ioctl_ficlone(2): _IOW(0x94, 9, int).
_FICLONE = 0x40049409


def share_blocks(source: int, target: int) -> bool:
    """Let the open, empty file `target` share all blocks of `source` until one of the two changes;
    False where the file system cannot, as ext4.
    """
    try:
        fcntl.ioctl(target, _FICLONE, source)
    except OSError:
        return False
    return True


def leave_mount_namespace(*needed: Path) -> None:
    """Move this process to its own mount namespace, which still receives mounts and unmounts of the
    machine.

    FUSE mounts are unmounted there, except those above the directories `needed`, this program and
    its working directory, and those of the system: on a machine with private mounts their programs
    could not end before this process. Call it before the process has a second thread. Raises
    OSError without permission.
    """
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    receive_mounts()
    kept = [Path.cwd(), Path(__file__), Path(sys.prefix), Path(sys.base_prefix), *needed]
    # The last mounted first, so that inner mounts precede outer ones.
    for kind, point in reversed(_mounts()):
        if (kind == "fuse" or kind.startswith("fuse.")) and not _belongs(Path(point), kept):
            # The mount may have been detached together with one above it.
            with contextlib.suppress(OSError):
                unmount(point)


def memory_file(name: str, content: bytes) -> int:
    """A descriptor of a new file in memory, which is never on a disk. Raises OSError."""
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def join_mount_namespace(namespace: int) -> None:
    """Move this process to the mount namespace of a descriptor; its root and working directory
    become those of the namespace. Call it before the process has a second thread. Raises OSError.
    """
    _check(_libc.setns(namespace, CLONE_NEWNS), "setns")


def receive_mounts() -> None:
    """Let mounts of the machine arrive in this mount namespace, but let none made here leave.
    Raises OSError.
    """
    _check(_libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None), "mount /")


def _belongs(point: Path, kept_paths: Sequence[Path]) -> bool:
    return any(path.is_relative_to(point) for path in kept_paths) or any(
        point.is_relative_to(path) for path in _SYSTEM
    )


def has_emulators() -> bool:
    """Whether the kernel hands programs of other processors to an emulator (binfmt_misc)."""
    return any(Path("/proc/sys/fs/binfmt_misc").glob("qemu-*"))


def open_machine_namespace() -> int:
    """A descriptor of the mount namespace that this process was started from. Raises OSError."""
    return os.open(f"/proc/{os.getppid()}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def has_own_mounts() -> bool:
    """Whether mounts of this process are hidden from the process that started it."""
    try:
        theirs = Path(f"/proc/{os.getppid()}/ns/mnt").readlink()
    except OSError:
        # The parent belongs to another user or has ended; its namespace is not ours.
        return True
    return Path("/proc/self/ns/mnt").readlink() != theirs


def mount(source: str, target: str, kind: str, options: str, *, flags: int = 0) -> None:
    """mount(2). Raises OSError naming the target."""
    _check(
        _libc.mount(
            source.encode(), os.fsencode(target), kind.encode(), flags, os.fsencode(options)
        ),
        target,
    )


def unmount(target: str) -> None:
    """Detach the mount from this namespace, at once even when it is in use (MNT_DETACH). Raises
    OSError.
    """
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def mount_overlay(
    target: str, *, lower: Sequence[str], upper: str, work: str, of_user: bool = False
) -> None:
    """Mount an overlay of the directories `lower`, topmost first; changes go to `upper`. Raises
    OSError. `of_user`: its marks are attributes that an ordinary user can set ("userxattr").

    Directories are passed by descriptor, so their names may have any characters and any length. The
    upper directory is removed with the container and need not survive a power cut ("volatile").
    Device files in it cannot be opened: containers have their own /dev.
    """
    opened = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*lower, upper, work)]
    # Options of overlayfs are separated by commas and colons, and limited to one page.
    try:
        *low, up, at = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        options = f"lowerdir={':'.join(low)},upperdir={up},workdir={at}"
        options += ",userxattr" if of_user else ""
        try:
            mount("overlay", target, "overlay", options + ",volatile", flags=MS_NODEV)
        # Kernels before 5.10 do not have "volatile".
        except OSError:
            mount("overlay", target, "overlay", options, flags=MS_NODEV)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def mounts_below(directory: str) -> list[str]:
    """Mount points at or below `directory` in this namespace, innermost first."""
    points = [point for _, point in reversed(_mounts(_escape(directory)))]
    return [point for point in points if point == directory or point.startswith(directory + "/")]


def _mounts(word: str = "") -> list[tuple[str, str]]:
    """Type and mount point of each mount of this namespace, in the order of mounting; only lines
    that contain `word`.
    """
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        # Splitting every line costs much where there are thousands of mounts, so lines are chosen
        # first.
        lines = [line.split(" ") for line in table.read().split("\n") if line and word in line]
    # The number of optional fields varies: the type follows the field "-" (proc(5)).
    return [(line[line.index("-", 6) + 1], unescape(line[4])) for line in lines]


def is_fuse(path: str) -> bool:
    """Whether a file or directory is on a FUSE file system. Raises OSError."""
    device = Path(path).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        lines = [line.split(" ") for line in table if number in line]
    kinds = {line[line.index("-", 6) + 1] for line in lines if line[2] == number}
    return any(kind == "fuse" or kind.startswith("fuse.") for kind in kinds)


def discard_directory(directory: Path, *, aside: Path, last: str = "") -> None:
    """Unmount everything in a directory, and remove it from its place (`process.removal.discard`).

    The file named `last` is removed last. An absent directory is no error. Raises OSError when it
    stays in place.
    """
    unmount_below(directory)
    removal.discard(directory, aside=aside, last=last)


def unmount_below(directory: Path) -> None:
    """Unmount every mount at or below a directory. Raises OSError."""
    # By name, without a stat: a FUSE mount of a dead process returns ENOTCONN for every access.
    for point in mounts_below(str(directory)):
        unmount(point)


def is_locked(path: Path) -> bool:
    """Whether a process has an exclusive lock (flock) on a file; False if there is no file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_running(pid: int) -> bool:
    """Whether `pid` is a process that has not ended; a zombie has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        # There is no such process.
        return False
    # The name in parentheses may contain spaces and parentheses (proc(5)). Z: zombie, X: dead.
    return text.rpartition(")")[2].split()[0] not in "ZX"


async def ended(pid: int) -> None:
    """Wait until a child of this process has ended; its exit status is not collected."""
    descriptor = os.pidfd_open(pid)
    try:
        await readable(descriptor)
    finally:
        os.close(descriptor)


async def readable(descriptor: int) -> None:
    """Wait until a descriptor can be read; a pidfd can be when its process has ended."""
    ready = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


def end_with_parent() -> None:
    """Let the kernel send TERM to this process when its parent ends (prctl(2)). Raises OSError."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0), "prctl")


def find_init(processes: Iterable[int]) -> int | None:
    """Process 1 of the outermost nested pid namespace among `processes`; None when there is
    none.
    """
    first_processes: dict[int, int] = {}
    for pid in processes:
        # NSpid lists the id in each nested namespace, the innermost last (proc_pid_status(5)).
        inner = _status(pid).get("NSpid", "").split()
        if len(inner) > 1 and inner[-1] == "1":
            first_processes.setdefault(len(inner), pid)
    return first_processes[min(first_processes)] if first_processes else None


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal. False when it has ended."""
    return bool(int(_status(pid).get("SigCgt", "0"), 16) & (1 << (number - 1)))


def _status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        # There is no such process.
        return {}
    return {name: value for name, _, value in (line.partition(":") for line in text.splitlines())}


def unescape(path: str) -> str:
    """A path in a table of mounts as it is, with its blanks and backslashes."""
    if "\\" in path:
        for code, char in _ESCAPES:
            path = path.replace(code, char)
    return path


def _escape(path: str) -> str:
    # The backslash first, so that inserted escapes are not escaped again.
    for code, char in reversed(_ESCAPES):
        path = path.replace(char, code)
    return path


def _check(result: int, subject: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), subject)
