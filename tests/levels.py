"""The levels of tests: what each holds, and when it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Level:
    """One level, `make NAME`. `marks` selects its tests of real parts, `minutes` is the time it may
    take on a machine of two cores that does nothing else.
    """

    name: str
    marks: str
    holds: str
    runs: str
    minutes: int


REAL: Final = tuple(f"tests/{name}" for name in ("docs", "cwl", "security", "arvados_go", "system"))
"""The directories with tests of real parts; those of all others are tests of modules."""

LEVELS: Final = (
    Level(
        "test",
        "quick and not long",
        "every module, with fakes; and the `quick` tests with each real engine, fleet, database and"
        " client",
        "before each commit is handed in; every change",
        12,
    ),
    Level(
        "system",
        "not quick and not long",
        "the other tests with real processes, engines, fleets, databases, clients and browsers",
        "every change: those that it can reach (`make affected`)",
        25,
    ),
    Level(
        "nightly",
        "long",
        "the tests marked `long`, coverage of everything, and all that plays, harms or loads a site"
        " for minutes to hours",
        "every night, and before a release",
        600,
    ),
)
NAMES: Final = tuple(level.name for level in LEVELS)
