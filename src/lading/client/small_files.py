"""Reading of many small files with three system calls each and little Python code.

A file is opened relative to the descriptor of its directory, so that the kernel resolves no path,
and never through a symbolic link. Its content is read with one call into memory that all files
share; a short read means the end of the file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from lading.confined import Stop, Stopped, never

SMALL: Final = 1 << 17
"""Bytes of the largest file that is read with one call."""
# A listed file may have become a pipe, whose open would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


_STRIDE: Final = 256
"""Files between two checks for a stop, about 2 ms of work."""


class SmallFiles:
    """A directory of the disk whose small files are read one after another, in the order of
    `names`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.position = 0
        """Number of files that were read or skipped."""
        # One byte more than SMALL shows that a file is too large.
        self._memory = bytearray(SMALL + 1)

    def read(
        self, directory: int, buffer: bytearray, room: int, *, stop: Stop = never
    ) -> list[int]:
        """Append the content of the next files to `buffer` while it has at most `room` bytes;
        return the length of each.

        `directory` is the descriptor of the directory. It stops before a file of more than `SMALL`
        bytes, too. A file that is too long or cannot be read adds nothing. Raises OSError, naming
        the file, and Stopped.
        """
        lengths: list[int] = []
        # Local names: the loop runs for each of very many files, and attribute lookups cost time.
        add, view, vector = lengths.append, memoryview(self._memory), [self._memory]
        open_, read, close, room = os.open, os.readv, os.close, room - SMALL
        for name in self.names[self.position :]:
            if lengths and len(buffer) > room:
                break
            if not len(lengths) % _STRIDE and stop():
                raise Stopped
            descriptor = open_(name, _FILE, dir_fd=directory)
            try:
                length = read(descriptor, vector)
            except OSError as error:
                error.filename = name
                raise
            finally:
                close(descriptor)
            if length > SMALL:
                break
            buffer += view[:length]
            add(length)
        self.position += len(lengths)
        return lengths
