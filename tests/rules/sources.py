"""Files of the repository for its rules: each is read once, and parsed once where a rule needs its
tree.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = ROOT / "src" / "lading"
TESTS: Final = ROOT / "tests"


def refuse(faults: Iterable[object]) -> None:
    """Fail with one line for each fault, if there is any."""
    lines = [str(one) for one in faults]
    if lines:
        raise AssertionError("\n".join(lines))


@cache
def modules(*tops: Path) -> tuple[Path, ...]:
    """The Python files below directories, sorted."""
    return tuple(path for top in tops for path in sorted(top.rglob("*.py")))


def everywhere() -> tuple[Path, ...]:
    """The Python files of the product, its tests, benchmarks, documentation and examples."""
    return modules(*(ROOT / top for top in ("src", "tests", "bench", "docs", "examples")))


def shown(path: Path) -> str:
    """A path relative to the product, or else to the repository."""
    return str(path.relative_to(PRODUCT if path.is_relative_to(PRODUCT) else ROOT))


@cache
def text(path: Path) -> str:
    """What a file says."""
    return path.read_text()


@cache
def tree(path: Path) -> ast.Module:
    """A parsed file. The collector of garbage is off meanwhile: trees have no cycles, and to look
    for some takes longer than to parse.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(text(path))
    finally:
        if was_on:
            gc.enable()


@cache
def nodes(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a file."""
    return tuple(ast.walk(tree(path)))
