"""Reads a file below the root of a container, with links as a process in it would follow them."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from lading.process.confined import SMALL, ConfinedTree, open_regular
from lading.process.tree_removal import DIRECTORY

# As the kernel's own limit for one look-up (MAXSYMLINKS).
_MAX_LINKS = 40


def read_text_in_root(root: str | Path, path: str, limit: int = SMALL) -> str:
    """The first `limit` bytes of a file below `root`, or "" where there is no such regular file.

    Links are followed as by a process whose root directory is `root`.
    """
    try:
        with ConfinedTree.open(root) as top:
            descriptor = _resolve_in_root(top, path)
            with open(descriptor, "rb") as file:
                return file.read(limit).decode("utf-8", "surrogateescape")
    except OSError:
        return ""


def _target(name: str, folder: int) -> str:
    """The target of a symbolic link; "" for an entry that is none."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        # No symbolic link (readlink(2)).
        if error.errno == errno.EINVAL:
            return ""
        raise


def _resolve_in_root(top: ConfinedTree, path: str) -> int:
    """A descriptor of the regular file that `path` names for a process with the root `top`."""
    stack = [os.dup(top.descriptor)]
    names, links = _reversed_names(path), 0
    try:
        while names:
            name = names.pop()
            if name == ".":
                continue
            if name == "..":
                # The parent of the root is the root.
                _close_beyond(stack, max(1, len(stack) - 1))
                continue
            target = _target(name, stack[-1])
            if target:
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    _close_beyond(stack, 1)
                names += _reversed_names(target)
            elif names:
                stack.append(os.open(name, DIRECTORY, dir_fd=stack[-1]))
            else:
                return open_regular(name, stack[-1])
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    finally:
        _close_beyond(stack, 0)


def _reversed_names(path: str) -> list[str]:
    return [name for name in reversed(path.split("/")) if name]


def _close_beyond(stack: list[int], length: int) -> None:
    while len(stack) > length:
        os.close(stack.pop())
