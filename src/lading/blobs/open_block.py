"""The open file of a block that is lent."""

from __future__ import annotations

import os
from pathlib import Path


class Loan:
    """`descriptor` is open, for reading only, until this is closed or nobody has it any more."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self.descriptor = -1
        self.descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the descriptor; the receiver's copy stays open. Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # The caller may have been cancelled before a slow disk opened the file.
        self.close()
