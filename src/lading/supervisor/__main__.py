"""`python -m lading.supervisor`: run one container in this process; its assignment is JSON on standard input."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lading import telemetry
from lading.core.errors import LadingError
from lading.supervisor import assignment, lockfile
from lading.supervisor.engines import find_engines
from lading.supervisor.process import ignore_probes, run_one


def main() -> int:
    """Exit code 0 when the life cycle was completed, 1 when it was not, 2 for an assignment that cannot be read."""
    telemetry.configure()
    ignore_probes()
    try:
        told = assignment.parse(sys.stdin.buffer.read())
        lock = lockfile.acquire(Path(told.run_directory))
    except LadingError as error:
        os.write(2, f"lading: {error.message}\n".encode())
        return 2
    return run_one(told, lock, engines=find_engines().make)


if __name__ == "__main__":
    sys.exit(main())
