"""Directories and files in the root of a container, made before its start.

VOLUMEs of an image that no layer makes, and what a mount lies on when a link of the image leads
there: the link may be dangling, for which crun makes nothing. The root holds files of strangers, so
links are followed below it only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from lading.core.errors import ExecutionError, Failure
from lading.process.confined import ConfinedTree
from lading.supervisor.engines import Bind

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# As the kernel's own limit for one look-up (path_resolution(7)).
_MOST_LINKS = 40


def make_points(rootfs: Path, volumes: Iterable[str], binds: Sequence[Bind], *, owner: int) -> None:
    """Make the VOLUMEs of an image, and what binds lie on, for the container's root `owner`. Raises
    OSError, ExecutionError.
    """
    make_volumes(rootfs, volumes, owner=owner)
    make_targets(rootfs, binds, owner=owner)


def make_volumes(rootfs: Path, paths: Iterable[str], *, owner: int) -> None:
    """Make the missing ones of these directories; where another file is in the way, none is made.
    Raises OSError.
    """
    for path in paths:
        with suppress(NotADirectoryError):
            _make(rootfs, path, owner=owner, is_file=False, only_links=False)


def volume_binds(
    volumes: Iterable[str], binds: Sequence[Bind], directory: Path
) -> tuple[Bind, ...]:
    """Binds of empty directories below `directory` for the VOLUMEs that lie in a mount that can be
    written, such as the output, which must not get their files. Raises OSError.
    """
    targets = {bind.target.rstrip("/") for bind in binds if not bind.readonly}
    taken = {bind.target.rstrip("/") for bind in binds}
    inner = [
        path
        for path in volumes
        if path not in taken and any(path.startswith(f"{target}/") for target in targets)
    ]
    empty_binds = []
    for number, path in enumerate(inner):
        source = directory / str(number)
        source.mkdir(mode=0o755, parents=True)
        empty_binds.append(Bind(str(source), path, False))
    return tuple(empty_binds)


def make_targets(rootfs: Path, binds: Sequence[Bind], *, owner: int) -> None:
    """Make what a bind lies on, where links of the image lead to nothing. Raises OSError, and
    ExecutionError for a file that would lie on a directory, or a directory on a file.
    """
    for bind in binds:
        is_file = not Path(bind.source).is_dir()
        # The engine makes the others, and says what is in the way.
        with suppress(NotADirectoryError):
            mode = _make(rootfs, bind.target, owner=owner, is_file=is_file, only_links=True)
            if mode and not _is_covered(bind, binds):
                _check_kind(bind, is_file=is_file, mode=mode)


def _is_covered(bind: Bind, binds: Sequence[Bind]) -> bool:
    """Whether a bind lies in another one, which hides the directories of the image."""
    return any(bind.target.startswith(f"{outer.target.rstrip('/')}/") for outer in binds)


def _check_kind(bind: Bind, *, is_file: bool, mode: int) -> None:
    """Check that a mount and the entry of the image below it are of one kind, as mount(2) asks."""
    is_on_directory = stat.S_ISDIR(mode)
    if is_on_directory != is_file or not Path(bind.source).exists():
        return
    kinds = ("directory", "file") if is_on_directory else ("file", "directory")
    raise ExecutionError(
        f"mounts[{bind.target}]: is a {kinds[0]} in the image, and the mount is a {kinds[1]}; "
        "choose another target",
        Failure.USER,
    )


def _make(rootfs: Path, path: str, *, owner: int, is_file: bool, only_links: bool) -> int:
    """Make the directory or file that `path` names in the root; with `only_links` only if a link is
    on the way. The mode of the entry that was there already; 0 if there was none.
    """
    mode = 0
    remaining, links = [name for name in reversed(path.split("/")) if name], 0
    with ConfinedTree.open(rootfs) as tree, _stack(tree) as stack:
        while remaining:
            name = remaining.pop()
            if name in (".", ".."):
                _close_beyond(stack, max(1, len(stack) - (name == "..")))
                continue
            try:
                status = os.stat(name, dir_fd=stack[-1], follow_symlinks=False)
            except FileNotFoundError:
                if only_links and not links:
                    return 0
                mode = 0
                stack += _new(stack[-1], name, owner, is_file=is_file and not remaining)
                continue
            mode = status.st_mode
            if stat.S_ISLNK(mode):
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                target = os.readlink(name, dir_fd=stack[-1])
                if target.startswith("/"):
                    _close_beyond(stack, 1)
                remaining += [element for element in reversed(target.split("/")) if element]
            elif remaining or stat.S_ISDIR(mode):
                stack.append(os.open(name, _FOLDER, dir_fd=stack[-1]))
    return mode


def _new(folder: int, name: str, owner: int, *, is_file: bool) -> list[int]:
    """Make an entry; the descriptor of a directory."""
    if is_file:
        os.close(os.open(name, _NEW, 0o644, dir_fd=folder))
    else:
        os.mkdir(name, 0o755, dir_fd=folder)
    os.chown(name, owner, owner, dir_fd=folder, follow_symlinks=False)
    return [] if is_file else [os.open(name, _FOLDER, dir_fd=folder)]


@contextmanager
def _stack(tree: ConfinedTree) -> Iterator[list[int]]:
    """The descriptor of the root, to which those of directories are added."""
    stack = [os.dup(tree.descriptor)]
    try:
        yield stack
    finally:
        _close_beyond(stack, 0)


def _close_beyond(stack: list[int], length: int) -> None:
    while len(stack) > length:
        os.close(stack.pop())
