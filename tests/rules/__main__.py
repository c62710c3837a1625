"""`python -m tests.rules`: check all rules. Prints what breaks one; the exit code is then 1."""

from __future__ import annotations

import gc
import importlib
import inspect
import sys
from pathlib import Path


def main() -> int:
    """Check every rule: each function of a `test_` module here that takes nothing."""
    # Some 400,000 nodes of trees live as long as this process.
    gc.disable()
    broken = checked = 0
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        module = importlib.import_module(f"tests.rules.{path.stem}")
        for name, rule in vars(module).items():
            if not name.startswith("test_") or inspect.signature(rule).parameters:
                continue
            checked += 1
            try:
                rule()
            except AssertionError as error:
                broken += 1
                print(f"{path.stem}: {name.removeprefix('test_').replace('_', ' ')}:\n{error}\n")
    print(f"{checked} rules, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
