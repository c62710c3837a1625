"""Roots of containers of an ordinary user where the kernel mounts no overlay for this user.

The layers of an image are one directory there, so neither way needs marks of removed files:
fuse-overlayfs shows the directory with the changes of the container in another one; a copy is made
for each container of a small image.
"""

from __future__ import annotations

import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lading.core.containers.disk_space import Amount
from lading.core.errors import ExecutionError, Failure
from lading.core.resources import GIB, format_bytes
from lading.supervisor.limits.disk_usage import measure

LARGEST_COPY = 1 * GIB
"""Bytes of an image of which each container gets a copy."""
# Seconds for the copy of the largest image, and for a mount.
_COPY_TIME, _MOUNT_TIME = 120.0, 20.0
_FUSE_OVERLAY = "fuse-overlayfs"
_logger = logging.getLogger("lading.supervisor")
# Layers whose copies were told in the log of this process.
_told: set[str] = set()


def mount_fuse_overlay(target: str, *, lower: Sequence[str], upper: str, work: str) -> None:
    """Mount by fuse-overlayfs, which ends when the mount does. Raises OSError."""
    options = f"lowerdir={':'.join(lower)},upperdir={upper},workdir={work}"
    command = [_FUSE_OVERLAY, "-o", options, target]
    _run(command, seconds=_MOUNT_TIME, fault=f"the image cannot be mounted: {_FUSE_OVERLAY}")


def copy_layer(layer: str, target: str, *, largest: int = LARGEST_COPY) -> None:
    """Copy the directory of an image into the existing directory `target`; on a file system with
    reflinks the copy shares its blocks. Raises ExecutionError(NODE) for an image of more than
    `largest` bytes, OSError.
    """
    uses = measure([Path(layer)], most=Amount(largest))
    size = sum(use.size for use in uses.values())
    if size > largest:
        raise ExecutionError(
            f"the image has more than {format_bytes(largest)}, which is too much for a copy for"
            " each container; the kernel mounts no overlay for this user: apt install"
            f" {_FUSE_OVERLAY}",
            Failure.NODE,
        )
    if layer not in _told:
        _told.add(layer)
        _logger.info("each container of an image gets a copy of its %s", format_bytes(size))
    # Links are copied as such, and names that begin with a dash are below the directory.
    command = ["cp", "-a", "--reflink=auto", "--", f"{layer}/.", target]
    _run(command, seconds=_COPY_TIME, fault="the image cannot be copied")


def _run(command: Sequence[str], *, seconds: float, fault: str) -> None:
    """Run a program to its end. Raises OSError with `fault` and the message of the program."""
    try:
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{fault}: not done in {seconds:g} s") from error
    if ended.returncode:
        message = " ".join(ended.stderr.decode(errors="replace").split())[:200]
        raise OSError(f"{fault}: {message or f'exit code {ended.returncode}'}")
