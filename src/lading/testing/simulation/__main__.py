"""`python -m lading.testing.simulation --seeds N [--steps 500] [--first 0] [--processes 2] [--replay SEED]`.

Plays the seeds, all processors at work, with a bar; then the three planted bugs, each of which has to be found. The
exit code is 1 when an invariant was broken, or a bug was not found; the last lines say how to play that seed again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator

from rich.console import Console
from rich.progress import track

from lading.testing.simulation.bugs import Bug, planted
from lading.testing.simulation.drama import Violation, play

_CHUNK = 20
_BUG_SEEDS = 400


def main() -> int:
    """Play; the exit code."""
    options = _parse()
    console = Console(stderr=True)
    if options.replay is not None:
        return _replay(options.replay, options.steps)
    began = time.monotonic()
    count, failed = 0, []
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        jobs = [(part, options.steps) for part in _parts(seeds)]
        results = pool.imap_unordered(_play_all, jobs)
        for steps, faults in track(results, "playing", total=len(jobs), console=console):
            count += steps
            failed += faults
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{len(seeds)} seeds of {options.steps} steps, {count} steps with their ends, in {seconds:.0f} s: "
        f"{len(failed)} violations\n"
    )
    for line in failed[:10]:
        sys.stdout.write(f"  {line}\n")
    missed = _look_for_bugs(options.steps)
    return 1 if failed or missed else 0


def find(bug: Bug, *, steps: int, seeds: int = _BUG_SEEDS) -> Violation | None:
    """The first violation that a planted bug causes, None when there is none in so many seeds."""
    with planted(bug) as fenced:
        for seed in range(seeds):
            try:
                play(seed, steps=steps, fenced=fenced)
            except Violation as violation:
                return violation
    return None


def _look_for_bugs(steps: int) -> int:
    missed = 0
    for bug in Bug:
        found = find(bug, steps=steps)
        missed += found is None
        sys.stdout.write(f"planted bug, {bug}: {f'found by {found}' if found else 'NOT FOUND'}\n")
    return missed


def _replay(seed: int, steps: int) -> int:
    try:
        sys.stdout.write(f"seed {seed}: quiet after {play(seed, steps=steps)} steps\n")
    except Violation as violation:
        sys.stdout.write("\n".join((*violation.trail, str(violation), "")))
        return 1
    return 0


def _play_all(job: tuple[range, int]) -> tuple[int, list[str]]:
    seeds, steps = job
    count, faults = 0, []
    for seed in seeds:
        try:
            count += play(seed, steps=steps)
        except Violation as violation:
            faults.append(f"{violation} (again: --replay {seed} --steps {steps})")
    return count, faults


def _parts(seeds: range) -> Iterator[range]:
    for start in range(seeds.start, seeds.stop, _CHUNK):
        yield range(start, min(start + _CHUNK, seeds.stop))


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m lading.testing.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="steps of trouble in each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--replay", type=int, help="play this seed and show what happened")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
