"""The mount of a container, or the disk below it, that has no space left."""

from __future__ import annotations

import os
from pathlib import Path

from lading.core.containers.mounting.mount_steps import (
    MakeDirectory,
)
from lading.supervisor.inputs.staging import Stage

# Bytes. A file system with less free space counts as full.
FULL_BELOW = 1 << 16


def full_places(directory: Path, stage: Stage | None) -> str:
    """The place of a container that has no space left, as a clause; "" when all have."""
    steps = stage.plan.steps if stage is not None else ()
    targets = {bind.source: bind.target for bind in (stage.binds if stage is not None else ())}
    for step in steps:
        if isinstance(step, MakeDirectory) and step.in_memory and _is_full(Path(step.path)):
            place, capacity = targets.get(step.path, step.path), step.capacity or "of the machine"
            return f"{place} was full (mounts: capacity {capacity})"
    return f"the disk of this machine was full ({directory})" if _is_full(directory) else ""


def _is_full(path: Path) -> bool:
    try:
        statistics = os.statvfs(path)
    except OSError:
        # Without an answer the disk does not count as full.
        return False
    # File systems that report no blocks or no inodes (f_blocks, f_files 0) have no such limit.
    return statistics.f_blocks > 0 and (
        statistics.f_bavail * statistics.f_frsize < FULL_BELOW
        or (statistics.f_files > 0 and statistics.f_favail == 0)
    )
