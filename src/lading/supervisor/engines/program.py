"""A program that is started very often, kept in memory where nobody can write to it.

crun makes such a copy of itself whenever it is started from a file, and starts again from that, so
that no container can change it through /proc (CVE-2019-5736). That is a quarter of the processor
time that it takes; a copy that is there already, and sealed, it takes as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_Mark = tuple[int, int, int]


class SealedProgram:
    """The copy of a program, for this process and those that are forked from it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = ""
        self._mark: _Mark = (0, 0, 0)
        self._descriptor = -1

    def seal(self) -> None:
        """Make the copy of what is on PATH. Where that cannot be done there is none."""
        with contextlib.suppress(OSError):
            path = shutil.which(self._name) or ""
            mark, content = _mark(path), Path(path).read_bytes()
            descriptor = os.memfd_create(self._name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            try:
                _write(descriptor, content)
                fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            except OSError:
                os.close(descriptor)
                raise
            self.close()
            self._path, self._mark, self._descriptor = path, mark, descriptor

    @property
    def descriptor(self) -> int:
        """The copy's; -1 when there is none, or the program has been replaced since."""
        if self._descriptor < 0:
            return -1
        try:
            return self._descriptor if _mark(self._path) == self._mark else -1
        except OSError:
            return -1

    def close(self) -> None:
        """Give the copy up."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


def _mark(path: str) -> _Mark:
    found = Path(path).stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
