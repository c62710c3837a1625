"""`python -m tests.rules.vague_names [PACKAGE...]`: list vague names of packages of the product, or
without a package their numbers; numbers that have fallen become the limit.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from tests.rules.bindings import Binding, bindings
from tests.rules.sources import PRODUCT, modules, shown, text, tree

_WORDS: Final = Path(__file__).with_suffix(".txt")
_LIMITS: Final = Path(__file__).with_suffix(".json")
_PUBLIC: Final = {
    ("client/functions.py", "text"): "an argument of the Python API",
    ("client/runs.py", "place"): "an argument of the Python API",
    ("hpc/daemon_memory.py", "given"): "a key of the stored state.json",
    ("testing/conformance/volumes.py", "kept"): "a fixture that authors of plug-ins write",
}
"""Vague names that users, plug-ins or stored files have: they do not change."""


@cache
def words() -> frozenset[str]:
    """The words that say nothing of a value."""
    lines = text(_WORDS).splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def limits() -> dict[str, int]:
    """The number of vague names that each package may have."""
    numbers: dict[str, int] = json.loads(text(_LIMITS))
    return numbers


def counts() -> dict[str, int]:
    """The number of vague names of each package."""
    numbers = dict.fromkeys(sorted({_package(path) for path in modules(PRODUCT)}), 0)
    for path, _ in vague():
        numbers[_package(path)] += 1
    return numbers


def vague() -> Iterator[tuple[Path, Binding]]:
    """Each vague binding of the product, with its file."""
    for path in modules(PRODUCT):
        for binding in bindings(tree(path)):
            if (
                binding.name.removeprefix("_") in words()
                and (shown(path), binding.name) not in _PUBLIC
            ):
                yield path, binding


def _package(path: Path) -> str:
    first, *further = path.relative_to(PRODUCT).parts
    return first if further else "lading"


def main(packages: list[str]) -> None:
    """List the names in `packages`; without one, print the numbers and lower the limits."""
    if packages:
        for path, binding in vague():
            if _package(path) in packages:
                print(f"{shown(path)}:{binding.line}: {binding.kind} {binding.name}")
        return
    numbers, allowed = counts(), limits() if _LIMITS.exists() else {}
    for package, count in numbers.items():
        print(f"{package:<12} {count:>5}")
    print(f"{'all':<12} {sum(numbers.values()):>5}")
    lowered = {
        package: min(count, allowed.get(package, count)) for package, count in numbers.items()
    }
    _LIMITS.write_text(json.dumps(lowered, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
