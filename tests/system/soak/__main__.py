"""`python -m tests.system.soak [--minutes N]`: steady load with random kills; memory stays flat and
nothing is left.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.system.soak.samples import HEADER, Sample
from tests.system.soak.site import soak
from tests.system.soak.verdict import judge


def main() -> int:
    """Run it, print the table and the verdict; 0 for a good one."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="minutes of load (60)")
    parser.add_argument(
        "--rate", type=float, default=3.0, help="requests a second, a third of one core (3)"
    )
    parser.add_argument(
        "--every", type=float, default=30.0, help="seconds between two samples (30)"
    )
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="repeats the choices of a run (the time)"
    )
    options = parser.parse_args()
    print(
        f"seed {options.seed}; memory in MiB, of the largest process of a role\n{HEADER}",
        flush=True,
    )

    def show(sample: Sample) -> None:
        print(sample.line(), flush=True)

    with tempfile.TemporaryDirectory(prefix="lading-soak-", ignore_cleanup_errors=True) as root:
        done = asyncio.run(
            soak(
                Path(root),
                minutes=options.minutes,
                rate=options.rate,
                every=options.every,
                seed=options.seed,
                show=show,
            )
        )
    lines, grown = judge(done.samples)
    faults = [*done.faults, *grown]
    memory = "memory not judged" if any("not judged" in line for line in lines) else "flat memory"
    print("growth in the last part, within the lives of processes:", *lines, sep="\n")
    print(
        f"requests: {_counted(done.requests)}; {done.reused} reused, "
        f"{done.retried} containers tried again"
    )
    print(f"killed:   {_counted(done.strikes)}")
    print(f"looked:   {_counted(done.looks)}")
    for fault in faults[:50]:
        print(f"  FAULT {fault}")
    print(
        f"soak: {options.minutes:g} minutes, {done.requests.total()} requests, "
        f"{done.strikes.total()} kills: "
        + (
            f"{len(faults)} faults"
            if faults
            else f"{memory}, nothing left, each request ended once: good"
        )
    )
    return 1 if faults else 0


def _counted(counts: Counter[str]) -> str:
    return ", ".join(f"{kind} {number}" for kind, number in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main())
