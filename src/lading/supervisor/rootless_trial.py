"""Whether this machine lets an ordinary user run the native engine, found by trying.

    python -m lading.supervisor.rootless_trial DIRECTORY

A process enters the namespaces of `rootless`, mounts an overlay on the file system of DIRECTORY,
and prints the result as JSON. It is a process of its own, since a process with several threads
cannot enter, and one that has tried in vain can do no more work.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import msgspec

from lading.process import tree_removal
from lading.supervisor import linux, rootless
from lading.supervisor.engines.id_mappings import hidden_proc, mount_points
from lading.supervisor.inputs.merged_layers import OPAQUE_OF_USER
from lading.supervisor.rootless import RootKind
from lading.supervisor.subordinate_ids import FoundIds, find_ids

# Seconds for the trial, which takes some 0.1 s.
_PATIENCE = 20.0
# Settings that forbid user namespaces, their forbidding values, and the commands that mend that.
_SETTINGS = (
    ("user/max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=15000"),
    ("kernel/unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
_FUSE_OVERLAY = "fuse-overlayfs"
_ENTERED = b"entered"


class RootlessTrial(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the trial."""

    fault: str = ""
    """The reason why the native engine cannot run for this user, or ""."""
    mend: str = ""
    """The command that removes the reason, if one is known."""
    root_kind: RootKind = RootKind.OVERLAY
    overlay_fault: str = ""
    """The reason why the kernel mounts no overlay for this user, or ""."""
    ids: FoundIds = FoundIds(fault="subordinate ids were not tried")
    """The subordinate ids that can be mapped."""


def mend_namespaces(read: Callable[[str], str]) -> str:
    """The command that lets ordinary users make user namespaces; "" where no setting forbids it.
    `read` returns a setting of the kernel by its path below /proc/sys, "" for none.
    """
    return next((mend for name, value, mend in _SETTINGS if read(name).strip() == value), "")


def read_setting(name: str) -> str:
    """A setting of this kernel, "" where it has none of this name."""
    try:
        return Path("/proc/sys", name).read_text()
    except OSError:
        return ""


@functools.lru_cache(maxsize=8)
def try_for_user(directory: Path, *, program: str = sys.executable) -> RootlessTrial:
    """Try in a process of its own, on the file system of a directory or of its nearest parent that
    exists. The answer of this process stays the same.
    """
    place = next(path for path in (directory, *directory.absolute().parents) if path.is_dir())
    command = [program, "-m", __name__, str(place)]
    try:
        done = subprocess.run(
            command, capture_output=True, timeout=_PATIENCE, check=False, stdin=subprocess.DEVNULL
        )
        return msgspec.json.decode(done.stdout, type=RootlessTrial)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError) as error:
        return RootlessTrial(fault=f"user namespaces cannot be tried: {error}")


def try_in_child(directory: Path) -> RootlessTrial:
    """Try in a fork of this process, which has one thread. `directory` exists."""
    said = run_in_child(lambda: msgspec.json.encode(attempt(directory)))
    try:
        return msgspec.json.decode(said, type=RootlessTrial)
    except msgspec.DecodeError:
        return RootlessTrial(fault="the process that tried user namespaces was ended")


def try_ids(directory: Path, *, find: Callable[[int], FoundIds] = find_ids) -> FoundIds:
    """The subordinate ids of this user, if a fork of this process can map them."""
    subordinate = find(os.geteuid())
    if subordinate.fault:
        return subordinate

    def enter() -> bytes:
        try:
            rootless.enter(directory, ids=subordinate.ids)
        except OSError as error:
            return str(error).encode()
        return _ENTERED

    if (reply := run_in_child(enter)) == _ENTERED:
        return subordinate
    return FoundIds(fault=f"subordinate ids cannot be mapped: {reply.decode(errors='replace')}")


def run_in_child(act: Callable[[], bytes]) -> bytes:
    """The result of a function in a fork of this process; empty if it was ended."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if not pid:
        try:
            os.write(writing, act())
        finally:
            # Without handlers and buffers of the parent.
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as answer:
        said = answer.read()
    os.waitpid(pid, 0)
    return said


def attempt(
    directory: Path,
    *,
    which: Callable[[str], str | None] = shutil.which,
    try_overlay: Callable[[Path], str] = lambda scratch: overlay_fault(scratch),
    find_subordinate: Callable[[Path], FoundIds] = try_ids,
) -> RootlessTrial:
    """Try in this process, which can then do nothing else. `directory` exists."""
    if fault := hidden_proc(mount_points()):
        return RootlessTrial(fault=fault, mend="run lading outside of this container")
    scratch = Path(directory) / f".lading-trial-{os.getpid()}"
    try:
        scratch.mkdir(mode=0o700)
    except OSError as error:
        return RootlessTrial(fault=f"{directory}: {error.strerror}")
    try:
        # Before this process has left the namespace in which they can be mapped.
        ids = find_subordinate(scratch)
        try:
            rootless.enter(scratch)
        except OSError as error:
            return RootlessTrial(
                fault=f"this user may make no user namespaces ({error.strerror})",
                mend=mend_namespaces(read_setting),
            )
        without_overlay = try_overlay(scratch)
        linux.unmount_below(scratch)
    finally:
        # The overlay is gone with this process.
        with contextlib.suppress(OSError):
            tree_removal.remove(scratch)
    if not without_overlay:
        return RootlessTrial(ids=ids)
    kind = RootKind.FUSE_OVERLAY if _has_fuse_overlay(which) else RootKind.COPY
    return RootlessTrial(root_kind=kind, overlay_fault=without_overlay, ids=ids)


def overlay_fault(scratch: Path) -> str:
    """The reason why no overlay with marks of a user can be mounted on a file system, or ""."""
    lower, upper, work, target = (scratch / name for name in ("lower", "upper", "work", "root"))
    for directory in (lower, upper, work, target):
        directory.mkdir()
    try:
        os.setxattr(lower, OPAQUE_OF_USER, b"y")
        os.mknod(lower / "whiteout", stat.S_IFCHR, os.makedev(0, 0))
        linux.mount_overlay(
            str(target), lower=[str(lower)], upper=str(upper), work=str(work), of_user=True
        )
    except OSError as error:
        return str(error.strerror)
    return ""


def _has_fuse_overlay(which: Callable[[str], str | None]) -> bool:
    return which(_FUSE_OVERLAY) is not None and os.access("/dev/fuse", os.R_OK | os.W_OK)


if __name__ == "__main__":
    sys.stdout.buffer.write(msgspec.json.encode(attempt(Path(sys.argv[1]))))
