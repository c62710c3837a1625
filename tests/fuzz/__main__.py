"""`python -m tests.fuzz [--calls N] [--seed N]`: generated calls against an API in this process."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.bodies import try_bodies
from tests.fuzz.document import try_document
from tests.fuzz.site import populated


def main() -> int:
    """Run both; print what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--calls", type=int, default=20_000, help="calls by the OpenAPI document (20000)")
    parser.add_argument("--bodies", type=int, default=5_000, help="calls with spoiled bodies (5000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a run (the time)")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    print(f"seed {options.seed}")
    with tempfile.TemporaryDirectory() as name, populated(Path(name), seed=options.seed) as site:
        faults = try_document(site, calls=options.calls, number=options.seed)
        faults += try_bodies(site, calls=options.bodies, number=options.seed)
    for fault in faults[:50]:
        print(fault)
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(site.statuses.items()))
    print(f"{sum(site.statuses.values())} calls ({statuses}), {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
