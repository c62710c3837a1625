"""`python -m tests.docs PLACE...`: play pages and print every command whose output is not the one
that is shown.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import played
from tests.docs.player import Mismatch, playing
from tests.docs.sites import SITES


def main() -> int:
    """Play each; how many commands did something else."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs", description=__doc__)
    parser.add_argument("places", nargs="+", metavar="PAGE[#SITE]")
    parser.add_argument("--long", action="store_true", help="also what takes minutes")
    options = parser.parse_args()
    return sum(_play(place, with_long=options.long) for place in options.places)


def _play(place: str, *, with_long: bool) -> int:
    wanted = [one for one in played() if one.place == place and (with_long or not one.is_long)]
    bad = 0
    with (
        tempfile.TemporaryDirectory(prefix="lading-docs-") as folder,
        SITES[place].around(Path(folder)) as variables,
        playing(Path(folder), dict(variables)) as player,
    ):
        player.prepare(SITES[place].prepare)
        for block in wanted:
            for step in block.steps:
                try:
                    player.play(block.page, step, timeout=1800.0 if block.is_long else 120.0)
                except Mismatch as error:
                    bad += 1
                    print(f"{error}\n", flush=True)
    print(f"{place}: {sum(len(one.steps) for one in wanted)} commands, {bad} differ", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
