"""Reading of many small files with three system calls each and little Python code.

A file is opened beside the descriptor of its directory, so that the kernel walks no path, and never
through a symbolic link. What it has comes with one call, into the same memory for all files; the
end of a file shows by a short read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

from lading.confined import Stop, Stopped, never

SMALL: Final = 1 << 17
"""Bytes of the largest file that is read in one call."""
# A listed file may have become a pipe, whose open would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


_STRIDE: Final = 256
"""Files between two checks for a stop: some 2 ms of work."""


class Folder:
    """A directory of the disk whose small files are read one after another, in the order of
    `names`.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names
        self.position = 0
        """How many files were read, or passed over."""
        self._memory = bytearray(SMALL + 1)

    def read(
        self, directory: int, buffer: bytearray, room: int, *, stop: Stop = never
    ) -> list[int]:
        """Add file after file to `buffer` while it has at most `room` bytes; the length of each.

        `directory` is the descriptor of the directory. It ends before a file of more than `SMALL`
        bytes, too. Nothing of a file that is too long, or could not be read, is added. Raises
        OSError, naming the file, and Stopped.
        """
        lengths: list[int] = []
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
