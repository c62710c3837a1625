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
        """Close it; whoever it was sent to has it still. Idempotent."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # Whoever asked may have given up before a slow disk had opened it.
        self.close()
