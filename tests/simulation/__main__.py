"""`python -m tests.simulation [--seeds N] [--steps 500] [--bugs] [--replay SEED]`.

Runs the seeds on all processors and shows a progress bar. Then it plants each bug and looks for it
in 500 seeds; a table has the seed, the step and the invariant that found each bug. `--bugs` does
only that. The exit code is 1 if an invariant was broken or a bug was not found. Each violation is
printed with the options that run its seed again.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.progress import track

from tests.simulation.bugs import Bug, planted
from tests.simulation.scenario import SHARE, Violation, run

_CHUNK = 20
BUG_SEEDS = 500


def main() -> int:
    """Run; the exit code."""
    options = _parse()
    if options.replay is not None:
        return _replay(options.replay, options.steps, options.bug)
    failed = [] if options.bugs else _run_seeds(options)
    missed = _look_for_bugs(options.steps, options.processes)
    return 1 if failed or missed else 0


def find(bug: Bug, *, steps: int, seeds: int = BUG_SEEDS) -> Violation | None:
    """First violation of a planted bug in the model server; None if no seed has one."""
    with planted(bug) as rules:
        for seed in range(seeds):
            try:
                run(seed, steps=steps, rules=rules, compares=False)
            except Violation as violation:
                return violation
    return None


def _run_seeds(options: argparse.Namespace) -> list[str]:
    console = Console(stderr=True)
    began = time.monotonic()
    count, failed = 0, list[str]()
    seeds = range(options.first, options.first + options.seeds)
    with multiprocessing.get_context("fork").Pool(options.processes) as pool:
        jobs = [(part, options.steps) for part in _parts(seeds)]
        results = pool.imap_unordered(_run_all, jobs)
        for steps, faults in track(results, "running", total=len(jobs), console=console):
            count += steps
            failed += faults
    compared = sum(seed % SHARE == 0 for seed in seeds)
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{len(seeds)} seeds of {options.steps} steps, {compared} of them compared with the real "
        f"handlers, {count} steps with their ends, in {seconds:.0f} s: {len(failed)} violations\n"
    )
    for line in failed[:10]:
        sys.stdout.write(f"  {line}\n")
    return failed


def _look_for_bugs(steps: int, processes: int) -> int:
    """How many planted bugs are not found; prints a table of all."""
    _print_row("planted bug", "seed", "step", "invariant")
    missed = 0
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for bug, found in pool.imap(_find, [(bug, steps) for bug in Bug]):
            missed += not found
            _print_row(bug, *(found or ("NOT FOUND", "-", "-")))
    count = len(Bug) - missed
    sys.stdout.write(f"{count} of {len(Bug)} planted bugs found within {BUG_SEEDS} seeds\n")
    return missed


def _find(job: tuple[Bug, int]) -> tuple[Bug, tuple[str, str, str] | None]:
    bug, steps = job
    found = find(bug, steps=steps)
    return bug, None if found is None else (str(found.seed), str(found.step), found.invariant)


def _print_row(*columns: str) -> None:
    widths: Sequence[int] = (26, 10, 6, 14)
    cells = (column.ljust(width) for column, width in zip(columns, widths, strict=True))
    sys.stdout.write(f"{' '.join(cells).rstrip()}\n")
    sys.stdout.flush()


def _replay(seed: int, steps: int, bug: Bug | None) -> int:
    try:
        with planted(bug) as rules:
            count = run(seed, steps=steps, rules=rules, compares=False if bug else None)
        sys.stdout.write(f"seed {seed}: quiet after {count} steps\n")
    except Violation as violation:
        sys.stdout.write("\n".join((*violation.trail, str(violation), "")))
        return 1
    return 0


def _run_all(job: tuple[range, int]) -> tuple[int, list[str]]:
    seeds, steps = job
    count, faults = 0, []
    for seed in seeds:
        try:
            count += run(seed, steps=steps)
        except Violation as violation:
            faults.append(f"{violation} (again: --replay {seed} --steps {steps})")
    return count, faults


def _parts(seeds: range) -> Iterator[range]:
    for start in range(seeds.start, seeds.stop, _CHUNK):
        yield range(start, min(start + _CHUNK, seeds.stop))


def _parse() -> argparse.Namespace:
    prog = "python -m tests.simulation"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--steps", type=int, default=500, help="steps of trouble in each")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument(
        "--bugs",
        action="store_true",
        help="only look for the planted bugs",
    )
    parser.add_argument("--replay", type=int, help="run this seed and show what happened")
    parser.add_argument("--bug", type=Bug, choices=list(Bug), help="with --replay: plant this bug")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
