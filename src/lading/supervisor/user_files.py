"""Files of containers that an ordinary user cannot remove: those of subordinate ids, and those in
directories that an image closes to their owner. Root of the user's namespace can.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lading.core.errors import Unavailable
from lading.process import tree_removal
from lading.supervisor import rootless
from lading.supervisor.rootless_trial import run_in_child
from lading.supervisor.subordinate_ids import find_ids

_REMOVED = b"removed"


def remove(directories: Sequence[Path]) -> None:
    """Remove directories with everything in them, as root of the user's namespace where this
    process is not root. Missing ones are no error. The process has one thread.

    Raises Unavailable for files that cannot be removed, after all others are.
    """
    with tempfile.TemporaryDirectory() as place:
        said = run_in_child(lambda: _remove(directories, Path(place)))
    if said != _REMOVED:
        raise Unavailable(
            f"files cannot be removed: {said.decode(errors='replace') or 'the process was ended'}"
        )


def _remove(directories: Sequence[Path], entry_directory: Path) -> bytes:
    failed: OSError | None = None
    try:
        if os.geteuid():
            rootless.enter(entry_directory, ids=find_ids(os.geteuid()).ids)
    # Without a namespace the user's own files are removed.
    except OSError as error:
        failed = error
    for directory in directories:
        try:
            tree_removal.remove(directory)
        except OSError as error:
            failed = failed or error
    return str(failed).encode() if failed else _REMOVED
