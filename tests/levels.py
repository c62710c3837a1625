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


@dataclass(frozen=True)
class Step:
    """One step of `make nightly`: a target of make, and the minutes after which it is ended."""

    target: str
    minutes: int


NIGHTLY: Final = (
    Step("coverage", 60),
    Step("system", 60),
    Step("long", 40),
    Step("pages", 60),
    Step("cwl", 90),
    Step("ga4gh", 60),
    Step("hpc", 90),
    Step("shell", 60),
    Step("cloud", 120),
    Step("kubernetes", 150),
    Step("chaos", 120),
    Step("simulate", 240),
    Step("fuzz", 120),
    Step("security", 60),
    Step("mutations", 60),
    Step("soak", 90),
)

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
        sum(step.minutes for step in NIGHTLY),
    ),
)
NAMES: Final = tuple(level.name for level in LEVELS)


def table() -> str:
    """The levels as a table of the documentation."""
    lines = ["| level | holds | runs | at most |", "|---|---|---|---|"]
    lines += [
        f"| `make {level.name}` | {level.holds} | {level.runs} | {_shown(level.minutes)} |"
        for level in LEVELS
    ]
    return "\n".join(lines) + "\n"


def _shown(minutes: int) -> str:
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h"
