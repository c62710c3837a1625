"""`python -m tests.nightly [STEP...]`: run the steps of tests/levels.py, or these, one after the
other. A step that fails or takes too long does not end the run; the exit code then is 1.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

from tests.levels import NIGHTLY
from tests.nightly.steps import Outcome, run_step, table

LOGS: Final = Path(__file__).parents[2] / "build" / "nightly"


def main() -> int:
    """Run them, and print what came of each."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("steps", nargs="*", metavar="STEP")
    asked = parser.parse_args().steps
    known = {step.target for step in NIGHTLY}
    if unknown := {*asked} - known:
        parser.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
    LOGS.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for step in NIGHTLY:
        if not asked or step.target in asked:
            print(f"{step.target} ...", flush=True)
            outcomes.append(run_step(step.target, ["make", step.target], step.minutes * 60, LOGS))
            print(outcomes[-1].line, flush=True)
    print(f"\n{table(outcomes)}")
    return 0 if all(outcome.has_passed for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
