"""Mount points of this machine: checks, read-ahead, and unmounting."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
from pathlib import Path

from lading.core.errors import Conflict, Invalid, Unavailable

# Flag of umount2(2): the mount disappears at once, and ends when it is no longer in use.
_MNT_DETACH = 2
_PROGRAMS = ("fusermount3", "fusermount")
# Seconds for fusermount.
_LIMIT = 10.0
_DEVICE = Path("/dev/fuse")
# Settings of block and FUSE devices by device number; read_ahead_kb is one of them.
_BACKING = Path("/sys/class/bdi")


def check_fuse(device: Path = _DEVICE) -> None:
    """Check that this user can mount. Raises Unavailable saying what to do."""
    if not device.exists():
        raise Unavailable(f"{device}: not there; load the module: modprobe fuse")
    if not os.access(device, os.R_OK | os.W_OK):
        raise Unavailable(f"{device}: this user may not use it: chmod 666 {device}")
    if os.geteuid() != 0 and _program() is None:
        raise Unavailable("fusermount3 is not installed: apt install fuse3")


def check_point(directory: Path) -> None:
    """Check that something can be mounted there. Raises Invalid or Conflict saying what to do."""
    if is_dead(directory):
        raise Conflict(
            f"{directory}: a mount is there whose process is gone; "
            f"take it away: lading mount --unmount {directory}"
        )
    if not directory.is_dir():
        raise Invalid(f"{directory}: not a directory; make it: mkdir -p {directory}")
    if kind_of(directory).startswith("fuse"):
        raise Conflict(
            f"{directory}: something is mounted there; "
            f"take it away: lading mount --unmount {directory}"
        )


def is_dead(directory: Path) -> bool:
    """Whether a mount is there whose process has ended."""
    try:
        directory.stat()
    except OSError as error:
        return error.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    return False


def kind_of(directory: Path) -> str:
    """The type of the topmost file system mounted at exactly this directory, "" if there is
    none.
    """
    return _find(directory)[0]


def device_of(directory: Path) -> str:
    """The device number of the file system that is mounted there, "" when there is none."""
    return _find(directory)[1]


def read_ahead(directory: Path, kib: int, *, backing: Path = _BACKING) -> bool:
    """Set the kernel's read-ahead of a mount; False if this user may not (the default is 128
    KiB).
    """
    device = device_of(directory)
    try:
        (backing / device / "read_ahead_kb").write_text(str(kib))
    except OSError:
        return False
    return True


def unmount(directory: Path) -> None:
    """Unmount a FUSE mount at once, even when it is in use. Raises Invalid if there is none,
    Unavailable.
    """
    if not kind_of(directory).startswith("fuse"):
        raise Invalid(f"{directory}: nothing is mounted there")
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.umount2(os.fsencode(directory.absolute()), _MNT_DETACH):
            number = ctypes.get_errno()
            raise Unavailable(f"{directory}: cannot be unmounted: {os.strerror(number)}")
        return
    program = _program()
    if program is None:
        raise Unavailable("fusermount3 is not installed: apt install fuse3")
    done = subprocess.run(
        [program, "-u", "-z", str(directory.absolute())],
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    if done.returncode:
        raise Unavailable(f"{directory}: cannot be unmounted: {' '.join(done.stderr.split())}")


def _find(directory: Path) -> tuple[str, str]:
    """Type and device number of the topmost file system mounted there, "" if there is none."""
    path = str(directory.absolute())
    file_system = ("", "")
    for line in Path("/proc/self/mountinfo").read_text(errors="surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        # Fields of proc_pid_mountinfo(5): 2 is major:minor, 4 the mount point; the type follows " -
        # ".
        fields = before.split(" ")
        if _unescape(fields[4]) == path:
            file_system = (after.split(" ")[0], fields[2])
    return file_system


def _program() -> str | None:
    return next((program for program in map(shutil.which, _PROGRAMS) if program), None)


def _unescape(path: str) -> str:
    # proc_pid_mountinfo(5) writes these four characters in octal.
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, char)
    return path
