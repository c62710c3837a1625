"""The imports of all Python files of the repository, read from their text.

Imports under `if TYPE_CHECKING` and inside of functions count, and so does a text that is the name
of a module: of a program that a test starts, or of an entry point. Directories of tests are no
packages, so import-linter's graph does not have them.
"""

from __future__ import annotations

import ast
import gc
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

TOPS: Final = ("src/lading", "tests", "bench", "docs", "examples", "scripts")
_PACKAGE: Final = ".__init__"
_NAME: Final = re.compile(r"((?:lading|tests|bench|docs|examples|scripts)(?:\.\w+)+)(?::\w+)?")


def modules_of(path: str) -> tuple[str, ...]:
    """The modules in a Python file of the repository. The file of a package has two: the package as
    who asks for its content imports it, and `__init__`, which all its modules run first.
    """
    parts = Path(path).with_suffix("").parts
    name = ".".join(parts[1:] if parts[0] == "src" else parts)
    return (name.removesuffix(_PACKAGE), name) if name.endswith(_PACKAGE) else (name,)


@dataclass(frozen=True)
class ImportGraph:
    """Each module, and the modules that it imports."""

    imports: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, root: Path) -> ImportGraph:
        """The graph of a repository; takes some two seconds."""
        paths = [path for top in TOPS for path in sorted((root / top).rglob("*.py"))]
        names = {modules_of(str(path.relative_to(root)))[0]: path for path in paths}
        gc.disable()
        try:
            return cls(
                {
                    name: frozenset(_imported(name, path, names)) - {name}
                    for name, path in names.items()
                }
            )
        finally:
            gc.enable()

    @cached_property
    def importers(self) -> Mapping[str, frozenset[str]]:
        """Each module, and the modules that import it."""
        found: dict[str, set[str]] = {}
        for name, imported in self.imports.items():
            for one in imported:
                found.setdefault(one, set()).add(name)
        return {name: frozenset(importers) for name, importers in found.items()}

    def reach(self, changed: Iterable[str], ends: Iterable[str] = ()) -> dict[str, str]:
        """The modules that import one of these, directly or not; each with the next module on the
        way to the changed one, which is its own. The way goes into the modules of `ends`, and not
        through them.
        """
        reached = {name: name for name in changed}
        waiting = list(reached)
        blocked = frozenset(ends)
        for name in waiting:
            if name in blocked and reached[name] != name:
                continue
            for importer in sorted(self.importers.get(name, ())):
                if importer not in reached:
                    reached[importer] = name
                    waiting.append(importer)
        return reached

    def needs(self, module: str) -> frozenset[str]:
        """The modules of tests that a module of tests imports, directly or not, and the modules of
        the product that these import directly.
        """
        needed = {module}
        waiting = [module]
        for name in waiting:
            if name.startswith("lading"):
                continue
            for one in self.imports.get(name, ()):
                if one not in needed:
                    needed.add(one)
                    waiting.append(one)
        return frozenset(needed)


def way(reached: Mapping[str, str], module: str) -> list[str]:
    """The modules from one that was reached to the changed one."""
    modules = [module]
    while reached[modules[-1]] != modules[-1]:
        modules.append(reached[modules[-1]])
    return modules


def _imported(name: str, path: Path, names: Mapping[str, Path]) -> Iterator[str]:
    yield from _packages(name)
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        for text in _named(node, package):
            module = _longest(text, names)
            if module:
                yield module
                yield from _packages(module)


def _packages(module: str) -> Iterator[str]:
    """The files that are run before a module."""
    parts = module.split(".")
    return (".".join(parts[:end]) + _PACKAGE for end in range(1, len(parts)))


def _named(node: ast.AST, package: str) -> Iterator[str]:
    """The names in a node that may be those of modules."""
    match node:
        case ast.Import(names=aliases):
            yield from (alias.name for alias in aliases)
        case ast.ImportFrom(module=module, names=aliases, level=level):
            top = package.rsplit(".", level - 1)[0] if level else ""
            origin = ".".join(filter(None, (top, module)))
            yield from (f"{origin}.{alias.name}" for alias in aliases)
        case ast.Constant(value=str(text)) if match := _NAME.fullmatch(text):
            yield match[1]


def _longest(name: str, names: Mapping[str, Path]) -> str:
    """The module that a name is, or that has it; "" if there is none."""
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name
