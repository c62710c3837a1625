"""Files and directories that are made for the mounts of a container, writable by its command."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lading.core.containers.mounting.mount_steps import (
    MakeDirectory,
    WriteFile,
)
from lading.core.errors import ExecutionError, Failure
from lading.process import cancellation
from lading.supervisor import linux
from lading.supervisor.engines import Bind

# Mode rwxrwsrwx: the command may run as any user; files get the group of the directory.
_OPEN_DIRECTORY = 0o2777
# Bytes that are copied between two checks of `stop`.
_COPIED = 16 << 20


def check_mount_points(binds: Sequence[Bind]) -> None:
    """Check that each mount point inside a read-only mount exists: it cannot be created, as the
    data is shared.
    """
    for number, bind in enumerate(binds):
        above = [outer for outer in binds[:number] if bind.target.startswith(outer.target + "/")]
        if not above or not above[-1].readonly:
            continue
        inner = bind.target.removeprefix(above[-1].target + "/")
        mount_point = plain_path(Path(above[-1].source), inner)
        kind = "directory" if Path(bind.source).is_dir() else "file"
        if mount_point is None or mount_point.is_dir() != (kind == "directory"):
            raise ExecutionError(
                f"mounts[{bind.target}]: lies inside the read-only mount {above[-1].target},"
                f" which has no {kind} {inner!r} to mount it on; choose another target",
                Failure.USER,
            )


def plain_path(root: Path, inner: str) -> Path | None:
    """Path of a relative path below `root`; None when it is missing or has a symbolic link."""
    for name in inner.split("/"):
        root /= name
        if root.is_symlink() or not root.exists():
            return None
    return root


def make_directory(step: MakeDirectory, *, memory: bool) -> None:
    make_open(Path(step.path))
    if step.in_memory and memory:
        size = f",size={step.capacity}" if step.capacity else ""
        linux.mount("tmpfs", step.path, "tmpfs", f"mode=2777{size}")


def make_open(path: Path) -> None:
    """Make a directory and its parents writable by everybody: the command may run as any user."""
    if path.is_dir():
        return
    make_open(path.parent)
    path.mkdir()
    # chmod after mkdir, since mkdir applies the umask.
    path.chmod(_OPEN_DIRECTORY)


def write_file(step: WriteFile) -> None:
    path = Path(step.path)
    make_open(path.parent)
    path.write_bytes(step.content)
    path.chmod(0o777 if step.writable else 0o444)


def copy_open(source: Path, target: Path, stop: cancellation.Stop) -> None:
    """Copy a file, or a directory with its contents; the copy is writable by everybody. Raises
    OSError, Stopped.
    """
    # Iterative: a deep tree must not exceed Python's recursion limit.
    pending = [(source, target)]
    while pending:
        from_path, to_path = pending.pop()
        if stop():
            raise cancellation.Stopped
        if from_path.is_file():
            make_open(to_path.parent)
            _copy_file(from_path, to_path, stop)
        else:
            make_open(to_path)
            pending += [(child, to_path / child.name) for child in from_path.iterdir()]


def _copy_file(source: Path, target: Path, stop: cancellation.Stop) -> None:
    with source.open("rb", 0) as reading, target.open("wb", 0) as writing:
        if linux.share_blocks(reading.fileno(), writing.fileno()):
            target.chmod(0o777)
            return
        # In the kernel, without a copy to this process (sendfile(2)).
        while os.sendfile(writing.fileno(), reading.fileno(), None, _COPIED):
            if stop():
                raise cancellation.Stopped
    target.chmod(0o777)
