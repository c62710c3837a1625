"""Assignments of jobs in files that only the dispatcher's user reads.

Some batch systems keep job scripts where every user of a node reads them. There the script reads
the assignment, which holds a token, from a file in a directory that the nodes share with the
dispatcher, and removes it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from lading.core.errors import Unavailable


def put_secrets(directory: str, assignments: Mapping[str, str]) -> None:
    """Write the assignments of containers, by uuid. Raises Unavailable."""
    try:
        folder = Path(directory)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise Unavailable(
                f"{directory}: others may read it; give it to the dispatcher's user, mode 0700"
            )
        for uuid, assignment in assignments.items():
            _write(folder / uuid, assignment.encode())
    except OSError as error:
        raise Unavailable(f"{directory}: no secret can be written ({error.strerror})") from error


def _write(path: Path, content: bytes) -> None:
    # Renamed when it is whole: a job of an earlier attempt may read it at any time.
    unfinished = path.with_suffix(".new")
    with suppress(FileNotFoundError):
        unfinished.unlink()
    descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    unfinished.rename(path)


def remove_secret(directory: str, uuid: str) -> None:
    """Remove the assignment of a container, if its job has not."""
    with suppress(OSError):
        (Path(directory) / uuid).unlink()
