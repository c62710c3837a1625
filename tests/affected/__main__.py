"""`python -m tests.affected [--base REV]`: the tests of real parts that the change since a revision
can reach, and why. Changes that are not committed count.

Without a revision it is that of `.ci/base`. Where that is missing, or no ancestor of this commit,
everything is to be run. `--names` prints nothing but names for pytest, one a line.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.affected.choice import Choice, choose, commands
from tests.affected.imports import ImportGraph
from tests.docs.pages import played

ROOT: Final = Path(__file__).parents[2]
BASE: Final = ROOT / ".ci" / "base"


def choice_since(base: str) -> Choice:
    """The choice for the change since a revision; "" is the one of `.ci/base`."""
    revision = base or (BASE.read_text().strip() if BASE.exists() else "")
    pages = played_commands()
    if not revision or _git("merge-base", "--is-ancestor", revision, "HEAD") is None:
        why = f"{revision or '.ci/base'} is no revision before this one"
        return Choice(choose([".ci/run"], ImportGraph({}), pages).tests, why)
    changed = _git("diff", "--name-only", "--no-renames", "-z", revision) or ""
    added = _git("ls-files", "--others", "--exclude-standard", "-z") or ""
    paths = filter(None, f"{changed}{added}".split("\0"))
    return choose(paths, ImportGraph.read(ROOT), pages)


def played_commands() -> dict[str, tuple[str, ...]]:
    """Each place of the documentation that is played, with the modules of its commands. The page
    that `make test` plays is not among them.
    """
    from lading.cli.main import cli
    from tests.docs.test_pages import FIRST, PLACES

    shown: dict[str, set[str]] = {place: set() for place in PLACES if place != FIRST}
    for block in played():
        if block.place in shown:
            shown[block.place] |= commands(block.text)
    modules = {name: _module(cli.get_command(None, name)) for name in cli.list_commands(None)}  # type: ignore[arg-type]
    return {
        place: tuple(sorted({modules[name] for name in names if name in modules}))
        for place, names in shown.items()
    }


def _module(command: object) -> str:
    callback = getattr(command, "callback", None)
    return str(getattr(callback, "__module__", "")).removeprefix("lading.")


def _git(*arguments: str) -> str | None:
    """The output of git; None if it says no."""
    done = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout if done.returncode == 0 else None


def main() -> int:
    """Print the choice."""
    parser = argparse.ArgumentParser(prog="python -m tests.affected", description=__doc__)
    parser.add_argument("--base", default="", metavar="REV")
    parser.add_argument("--names", action="store_true")
    options = parser.parse_args()
    choice = choice_since(options.base)
    if options.names:
        print("\n".join(choice.tests))
    elif choice.everything:
        print(f"everything ({len(choice.tests)}): {choice.everything}")
    else:
        print("\n".join(f"{name}: {reason}" for name, reason in choice.tests.items()))
        print(f"{len(choice.tests)} are reached")
    return 0


if __name__ == "__main__":
    sys.exit(main())
