"""The system calls that Python has no function for, and removal of directories that may have mounts
in them.

Mount namespaces: a supervisor first leaves the machine's namespace, so that whatever it mounts is
seen by it and its children only and vanishes with the last of them, also after kill -9.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from lading import removal

CLONE_NEWNS = 0x20000
MS_NOSUID = 1 << 1
MS_NODEV = 1 << 2
MS_REC = 1 << 14
MS_SLAVE = 1 << 19
MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_ESCAPES = (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\"))
_SYSTEM = (Path("/proc"), Path("/sys"), Path("/dev"))


def leave_mount_namespace(*needed: Path) -> None:
    """Give this process its own mount namespace, which still sees what the machine mounts and
    unmounts.

    FUSE mounts are left behind, but those that lie above the directories `needed`, this program or
    where it runs, and those of the system: on a machine that does not share its mounts their
    programs could not end before this process. Call it before the process has a second thread.
    Raises OSError without the right to do so.
    """
    _check(_libc.unshare(CLONE_NEWNS), "unshare")
    _check(_libc.mount(None, b"/", None, MS_REC | MS_SLAVE, None), "mount /")
    kept = [Path.cwd(), Path(__file__), Path(sys.prefix), Path(sys.base_prefix), *needed]
    for kind, point in reversed(_mounts()):
        if (kind == "fuse" or kind.startswith("fuse.")) and not _belongs(Path(point), kept):
            # Another one may have gone with a mount above it.
            with contextlib.suppress(OSError):
                unmount(point)


def _belongs(point: Path, kept: Sequence[Path]) -> bool:
    return any(one.is_relative_to(point) for one in kept) or any(
        point.is_relative_to(one) for one in _SYSTEM
    )


def open_machine_namespace() -> int:
    """A descriptor of the mount namespace that this process was started from. Raises OSError."""
    return os.open(f"/proc/{os.getppid()}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)


def has_own_mounts() -> bool:
    """Whether what this process mounts stays hidden from the process that started it."""
    try:
        theirs = Path(f"/proc/{os.getppid()}/ns/mnt").readlink()
    except OSError:
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
    """Take the mount away from this namespace, at once even when it is in use. Raises OSError."""
    _check(_libc.umount2(os.fsencode(target), MNT_DETACH), target)


def mount_overlay(target: str, *, lower: Sequence[str], upper: str, work: str) -> None:
    """Mount an overlay of the directories `lower`, topmost first, with changes going to `upper`.
    Raises OSError.

    Directories are passed by descriptor, so neither their names' characters nor their lengths
    matter. The upper directory is thrown away with the container and need not survive a power cut
    ("volatile"). Device files in it open nothing: containers have those of their own /dev.
    """
    opened = [os.open(path, os.O_PATH | os.O_CLOEXEC) for path in (*lower, upper, work)]
    try:
        *low, up, at = (f"/proc/self/fd/{descriptor}" for descriptor in opened)
        options = f"lowerdir={':'.join(low)},upperdir={up},workdir={at}"
        try:
            mount("overlay", target, "overlay", options + ",volatile", flags=MS_NODEV)
        except OSError:
            mount("overlay", target, "overlay", options, flags=MS_NODEV)
    finally:
        for descriptor in opened:
            os.close(descriptor)


def mounts_below(directory: str) -> list[str]:
    """Mount points at or below `directory` in this namespace, innermost first."""
    points = [point for _, point in reversed(_mounts(_escape(directory)))]
    return [one for one in points if one == directory or one.startswith(directory + "/")]


def _mounts(word: str = "") -> list[tuple[str, str]]:
    """Type and mount point of each mount of this namespace whose line has `word`, in the order they
    were made.
    """
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        lines = [line.split(" ") for line in table.read().split("\n") if line and word in line]
    return [(line[line.index("-", 6) + 1], _unescape(line[4])) for line in lines]


def is_fuse(path: str) -> bool:
    """Whether a file or directory is on a FUSE file system. Raises OSError."""
    device = Path(path).stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as table:
        lines = [line.split(" ") for line in table if number in line]
    kinds = {line[line.index("-", 6) + 1] for line in lines if line[2] == number}
    return any(kind == "fuse" or kind.startswith("fuse.") for kind in kinds)


def discard_directory(directory: Path, *, aside: Path, last: str = "") -> None:
    """Unmount what is mounted in a directory, and have it gone from its place (`removal.discard`).

    The file named `last` goes last. Nothing there is no error. Raises OSError when it stays where
    it is.
    """
    unmount_below(directory)
    removal.discard(directory, aside=aside, last=last)


def unmount_below(directory: Path) -> None:
    """Take away every mount at or below a directory. Raises OSError."""
    # What a dead process has mounted cannot even be looked at.
    for point in mounts_below(str(directory)):
        unmount(point)


def is_running(pid: int) -> bool:
    """Whether `pid` is a process that has not ended; one that nobody has waited for has."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


async def ended(pid: int) -> None:
    """Wait until a child of this process has ended; its status is left to be collected."""
    descriptor = os.pidfd_open(pid)
    readable = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(descriptor, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def end_with_parent() -> None:
    """Have the kernel send TERM to this process when its parent ends. Raises OSError."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0), "prctl")


def find_init(processes: Iterable[int]) -> int | None:
    """The first process of the outermost pid namespace below others among `processes`; None when it
    is not there.
    """
    found: dict[int, int] = {}
    for pid in processes:
        inner = _status(pid).get("NSpid", "").split()
        if len(inner) > 1 and inner[-1] == "1":
            found.setdefault(len(inner), pid)
    return found[min(found)] if found else None


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process handles a signal. False when it has ended."""
    return bool(int(_status(pid).get("SigCgt", "0"), 16) & (1 << (number - 1)))


def _status(pid: int) -> dict[str, str]:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return {}
    return {name: value for name, _, value in (line.partition(":") for line in text.splitlines())}


def _unescape(text: str) -> str:
    if "\\" in text:
        for code, char in _ESCAPES:
            text = text.replace(code, char)
    return text


def _escape(text: str) -> str:
    for code, char in reversed(_ESCAPES):
        text = text.replace(char, code)
    return text


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
