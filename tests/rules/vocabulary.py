"""`python -m tests.rules.vocabulary [WORD]`: number of each second name of one thing that
`docs/vocabulary.md` forbids, by package; with a word the lines that have it. Numbers that have
fallen become the limit.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tests.rules.sources import PRODUCT, ROOT, modules, shown, text

_PAGE: Final = ROOT / "docs" / "vocabulary.md"
_LIMITS: Final = Path(__file__).with_suffix(".json")
_ROW: Final = re.compile(r"(?m)^\| (?!term \|)([^|]+) \| ([^|]+) \| ([^|]*) ?\| ([^|]*) ?\|$")


@dataclass(frozen=True)
class Term:
    """A term of the page, its other names, and the packages that do not use these."""

    name: str
    others: tuple[str, ...]
    packages: tuple[str, ...]


@cache
def terms() -> tuple[Term, ...]:
    """The terms of the page."""
    return tuple(
        Term(name.strip(), _items(others), _items(packages))
        for name, _, others, packages in _ROW.findall(text(_PAGE))
    )


def _items(cell: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in cell.split(",") if item.strip())


def uses(word: str, package: str) -> Iterator[tuple[Path, int]]:
    """Files and lines of a package with a word: in names, docstrings, comments and messages."""
    pattern = _pattern(word)
    for path in modules(PRODUCT if package == "all" else PRODUCT / package):
        for number, line in enumerate(text(path).splitlines(), 1):
            for _ in pattern.finditer(line):
                yield path, number


@cache
def _pattern(word: str) -> re.Pattern[str]:
    spelled = "[ _-]?".join(map(re.escape, word.split()))
    return re.compile(rf"(?<![a-z]){spelled}(?:e?s)?(?![a-z])", re.IGNORECASE)


def counts() -> dict[str, int]:
    """Number of uses of each forbidden word in each package, as `word in package`."""
    return {
        f"{other} in {package}": sum(1 for _ in uses(other, package))
        for term in terms()
        for other in term.others
        for package in term.packages
    }


def limits() -> dict[str, int]:
    """The number of uses that each package may have; none for a word that is new on the page."""
    numbers: dict[str, int] = json.loads(text(_LIMITS))
    return numbers


def main(words: list[str]) -> None:
    """Print the lines with `words`; without any print the numbers, and lower the limits."""
    for term in terms():
        for other in term.others:
            if other in words:
                for package in term.packages:
                    for path, line in uses(other, package):
                        print(f"{shown(path)}:{line}: {other}; say {term.name}")
    if words:
        return
    numbers, allowed = counts(), limits() if _LIMITS.exists() else {}
    for name, count in numbers.items():
        if count:
            print(f"{name:<40} {count:>5}")
    lowered = {name: min(count, allowed.get(name, count)) for name, count in numbers.items()}
    used = {name: count for name, count in lowered.items() if count}
    _LIMITS.write_text(json.dumps(used, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
