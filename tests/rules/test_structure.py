"""Rules of the source code that can be counted: sizes, names, docstrings, folders, tests."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lading"
MODULES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager", "base"}
# A reader keeps some 25 names in view; `api/resources` has one module for each record type.
_MODULES_PER_FOLDER = 27
_LINES_PER_FILE = 600
_LINES_PER_FUNCTION, _IN_CORE = 100, 60


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_are_short() -> None:
    lengths = {_name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in lengths.items() if lines > _LINES_PER_FILE} == {}


def test_functions_are_short() -> None:
    core = SOURCE / "core"
    long = [
        f"{_name(path)}: {node.name}"
        for path in MODULES
        for node in _functions(path)
        if _length(node) > (_IN_CORE if path.is_relative_to(core) else _LINES_PER_FUNCTION)
    ]
    assert long == []


def test_folders_are_small() -> None:
    sizes = Counter(_name(path.parent) for path in MODULES if path.name != "__init__.py")
    assert {name: count for name, count in sizes.items() if count > _MODULES_PER_FOLDER} == {}


def test_modules_say_what_they_are() -> None:
    assert [_name(path) for path in MODULES if not ast.get_docstring(_tree(path))] == []
    assert [_name(path) for path in MODULES if path.stem in FORBIDDEN_NAMES] == []


def test_public_functions_of_core_have_docstrings() -> None:
    silent = [
        f"{_name(path)}: {node.name}"
        for path in sorted((SOURCE / "core").rglob("*.py"))
        for node in _tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_every_module_has_its_test() -> None:
    missing = []
    for path in MODULES:
        if path.name in ("__init__.py", "__main__.py") or path.is_relative_to(SOURCE / "testing"):
            continue
        package = ROOT / "tests" / path.parent.relative_to(SOURCE)
        if not list(package.glob(f"test_{path.stem}*.py")):
            missing.append(_name(path))
    assert missing == []


def test_no_test_sleeps() -> None:
    sleepy = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.relative_to(ROOT / "tests").parts[0]
        not in ("system", "security", "docs", "simulation")
        for node in ast.walk(_tree(path))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and _waits(node)
    ]
    assert sleepy == []


def _waits(call: ast.Call) -> bool:
    # `asyncio.sleep(0)` hands the loop over and waits for nothing.
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
