"""A tree that is deeper than a path can say."""

from __future__ import annotations

import os
from pathlib import Path


def make_deep(top: Path, depth: int) -> None:
    """A chain of directories, deeper than a path can say, with a file at its end."""
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)
