"""`python -m tests.system.chaos [--local N] [--user N] [--slurm N] [--seed N]`: all is killed;
every request must end, once, and leave nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from lading.testing.ordinary_user import ordinary_user
from tests.system.chaos.sites import Outcome, through_slurm, two_dispatchers

_ROOT = Path(__file__).parents[3]


def main() -> int:
    """Run all sites; print what went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.system.chaos")
    parser.add_argument(
        "--local", type=int, default=2000, help="containers on two local dispatchers (2000)"
    )
    parser.add_argument(
        "--user", type=int, default=2000, help="the same of an ordinary user, when root asks (2000)"
    )
    parser.add_argument("--slurm", type=int, default=500, help="containers through Slurm (500)")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="repeats the choices of a run (the time)"
    )
    parser.add_argument("--period", type=float, default=1.0, help="seconds between two strikes (1)")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    good = True
    for name, count, site in (
        ("two local dispatchers", options.local, two_dispatchers),
        ("Slurm", options.slurm, through_slurm),
    ):  # fmt: skip
        if count:
            with tempfile.TemporaryDirectory(
                prefix="lading-chaos-", ignore_cleanup_errors=True
            ) as root:
                outcome = asyncio.run(
                    site(
                        Path(root), count, seed=options.seed, period=options.period, say=_speaker()
                    )
                )
            _show(name, count, outcome)
            good = good and not outcome.faults
    if options.user and os.geteuid() == 0:
        good = _run_as_user(options) == 0 and good
    return 0 if good else 1


def _run_as_user(options: argparse.Namespace) -> int:
    """Run the local site as an ordinary user; the exit code."""
    chosen = ("--local", str(options.user), "--slurm", "0", "--seed", str(options.seed))
    command = (sys.executable, "-m", "tests.system.chaos", *chosen, "--period", str(options.period))
    with ordinary_user(offset=7) as user:
        print("as an ordinary user:", flush=True)
        process = user.start(command, cwd=_ROOT, stdout=None, stderr=None)
        code = process.wait()
        left = [str(path) for path in user.temporary.iterdir()]
        print(f"left by the user: {', '.join(left) or 'nothing'}", flush=True)
        return code or len(left)


def _show(name: str, count: int, outcome: Outcome) -> None:
    strikes = ", ".join(f"{kind} {number}" for kind, number in sorted(outcome.strikes.items()))
    print(
        f"{name}: {count} containers in {outcome.seconds:.0f} s; struck: {strikes}; "
        f"{len(outcome.faults)} faults"
    )
    for fault in outcome.faults[:50]:
        print(f"  {fault}")
    sys.stdout.flush()


def _speaker() -> Callable[[str], None]:
    """Says how far it is, every 15 seconds."""
    last = [time.monotonic()]

    def say(text: str) -> None:
        if time.monotonic() - last[0] > 15:
            last[0] = time.monotonic()
            print(f"  {text}", flush=True)

    return say


if __name__ == "__main__":
    sys.exit(main())
