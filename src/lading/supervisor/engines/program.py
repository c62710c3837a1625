"""A frequently started program, kept in a sealed memory file.

crun copies itself into such a file whenever it is started from disk, and starts again from there,
so that no container can change it through /proc (CVE-2019-5736). That is a quarter of its processor
time. A sealed copy is accepted as it is.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from pathlib import Path

# No change of content or size, and no removal of the seals (memfd_create(2), fcntl(2)).
_SEALS = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_Mark = tuple[int, int, int]


class SealedProgram:
    """The sealed copy of a program, for this process and its forks."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._path = ""
        self._mark: _Mark = (0, 0, 0)
        self._descriptor = -1

    def seal(self) -> None:
        """Make the copy of the program on PATH. Without permission or support there is none."""
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
            # The former copy, when the program was replaced.
            self.close()
            self._path, self._mark, self._descriptor = path, mark, descriptor

    @property
    def descriptor(self) -> int:
        """Descriptor of the copy; -1 when there is none, or the program was replaced since."""
        if self._descriptor < 0:
            return -1
        try:
            return self._descriptor if _mark(self._path) == self._mark else -1
        except OSError:
            # The program was removed or replaced.
            return -1

    def close(self) -> None:
        """Close the in-memory copy."""
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
