"""Standard input of a command line as an input of a request."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from lading.cli.running.inputs import STDIN, Input
from lading.core.errors import Invalid
from lading.process.portable import waiting_bytes


@contextmanager
def standard_input() -> Generator[Input]:
    """Inside, standard input as an input: its content is kept in a file. Raises Invalid for a
    terminal.
    """
    if sys.stdin.isatty():
        raise Invalid(
            "--stdin: standard input is a terminal; pipe something, or give a file: "
            "--input stdin=FILE"
        )
    with tempfile.TemporaryDirectory(prefix="lading-") as folder:
        # The name is a part of the content, so it is always the same.
        path = Path(folder) / STDIN
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        yield Input(target=STDIN, path=path)


def has_data(stream: TextIO) -> bool:
    """Whether a pipe or a file has bytes to be read now; nothing is read."""
    try:
        descriptor = stream.fileno()
        held = os.fstat(descriptor)
        if stat.S_ISREG(held.st_mode):
            return held.st_size > os.lseek(descriptor, 0, os.SEEK_CUR)
        if not stat.S_ISFIFO(held.st_mode):
            return False
        return waiting_bytes(descriptor) > 0
    # A stream without a descriptor, or a closed one.
    except (OSError, ValueError):
        return False
