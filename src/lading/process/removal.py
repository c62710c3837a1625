"""Removal of directories with untrusted content: at once, or moved aside and removed later.

The owner of such a tree may have made it so large, or so odd, that its removal takes long or fails.
That must not keep resources of a container, nor stop the clean-up. So `discard` ends within some
seconds: the rest is moved into the directory `removed` beside its kind, on the same file system,
and `retry` continues with it later.

    <data>/removed/           remains of containers: run directories and ranks of gangs
    <data>/cache/removed/     layers of images and input collections

Both are shown by `lading doctor`. Forkservers retry when they start, and once a minute while
something is left; supervisors that are started singly (Slurm, by hand) retry at their own end, for
seconds.
"""

from __future__ import annotations

import errno
import logging
import secrets
import time
from contextlib import suppress
from pathlib import Path

from lading.process import tree_removal
from lading.process.cancellation import Stop, Stopped, never

NAME = "removed"
PATIENCE = 10.0
"""Seconds that one removal may take before the rest is moved aside: some 500,000 files."""
_logger = logging.getLogger("lading.process.removal")


def beside(directory: Path) -> Path:
    """The directory `<data>/removed`, to which `<data>/<kind>/<name>` is moved when its removal
    fails.
    """
    return directory.parent.parent / NAME


def places(data: Path) -> tuple[Path, Path]:
    """The directories for moved directories below the data directory of a server, a VM or a
    node.
    """
    return data / NAME, data / "cache" / NAME


def discard(directory: Path, *, aside: Path, last: str = "", patience: float = PATIENCE) -> None:
    """Remove a directory from its place. A missing one is no error.

    It is deleted, the entry named `last` after all others; or, when that fails or takes longer than
    `patience` seconds, moved into `aside`, which is made. Raises OSError when neither works.
    """
    until = time.monotonic() + patience
    try:
        tree_removal.remove(directory, keep=last, stop=lambda: time.monotonic() > until)
    except Stopped:
        _move(directory, aside, f"its removal takes longer than {patience:g} s")
    except OSError as error:
        _move(directory, aside, str(error))


def waiting(aside: Path) -> list[str]:
    """Names of the directories that were moved aside and still exist. Raises no error."""
    try:
        return sorted(entry.name for entry in aside.iterdir())
    except OSError:
        return []


def retry(aside: Path, *, stop: Stop = never) -> int:
    """Try again to remove the directories in `aside`; return the number left. Raises no error.

    Any number of processes may do so at the same time.
    """
    for name in waiting(aside):
        try:
            tree_removal.remove(aside / name, stop=stop)
        except Stopped:
            break
        except OSError as error:
            _logger.info("%s: still cannot be removed: %s", aside / name, error)
        else:
            _logger.info("%s: removed at last", aside / name)
    left = len(waiting(aside))
    if not left:
        # Another process may have put something aside meanwhile.
        with suppress(OSError):
            aside.rmdir()
    return left


def _move(directory: Path, aside: Path, why: str) -> None:
    aside.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A random suffix: several directories of one name may be moved.
    target = aside / f"{directory.name}~{secrets.token_hex(4)}"
    with suppress(FileNotFoundError):
        try:
            directory.rename(target)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise OSError(
                    errno.EXDEV, f"{aside} is on another file system", str(directory)
                ) from error
            raise
        _logger.warning("%s: moved to %s, to be removed later: %s", directory, target, why)
