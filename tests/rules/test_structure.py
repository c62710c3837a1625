"""Rules of the house that can be counted: sizes, names, docstrings, a test for every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "lading"
MODULES = sorted(SOURCE.rglob("*.py"))
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager", "base"}


def _name(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_files_are_short(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 600


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_functions_are_short(path: Path) -> None:
    limit = 60 if path.is_relative_to(SOURCE / "core") else 100
    assert [node.name for node in _functions(path) if _length(node) > limit] == []


@pytest.mark.parametrize("path", MODULES, ids=_name)
def test_modules_say_what_they_are(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text()))
    assert path.stem not in FORBIDDEN_NAMES


@pytest.mark.parametrize("path", sorted((SOURCE / "core").glob("*.py")), ids=_name)
def test_public_functions_of_core_have_docstrings(path: Path) -> None:
    tree = ast.parse(path.read_text())
    public = [
        node for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [node.name for node in public if not ast.get_docstring(node)] == []


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
        if path.relative_to(ROOT / "tests").parts[0] not in ("system", "security", "docs")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep") and _waits(node)
    ]
    assert sleepy == []


def _waits(call: ast.Call) -> bool:
    # `asyncio.sleep(0)` hands the loop over and waits for nothing.
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
