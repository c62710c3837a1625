"""Rules of the source code that can be counted: sizes, names, docstrings, folders, tests."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from scripts.figures import circles, complexity, has_low_constants, imports
from tests.rules.sources import PRODUCT, TESTS, modules, nodes, refuse, shown, text, tree

MODULES = modules(PRODUCT)
CORE = PRODUCT / "core"
FORBIDDEN_NAMES = {"utils", "common", "helpers", "manager", "base"}
# A reader keeps some 25 names in view.
_MODULES_PER_FOLDER = 25
_LINES_PER_FILE = 600
# Files that may have so many lines or more. The numbers only fall: whoever divides a file lowers
# them.
_LONG_FILES = {400: 88, 580: 0}
# Modules that may have constants below a definition; the number only falls.
_LOW_CONSTANTS = 28
_LINES_PER_FUNCTION, _IN_CORE = 100, 60
# McCabe's, boolean operators and conditions of comprehensions counted; ruff's rule counts neither.
_COMPLEXITY, _COMPLEXITY_IN_CORE = 15, 12
_BRANCHING = re.compile(r"\b(?:if|elif|for|while|except|case|and|or)\b")


def _functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def _length(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_files_are_short() -> None:
    lengths = {shown(path): len(text(path).splitlines()) for path in MODULES}
    refuse(f"{one}: {lines} lines" for one, lines in lengths.items() if lines > _LINES_PER_FILE)


def test_no_more_files_get_long() -> None:
    for length, most in _LONG_FILES.items():
        paths = [shown(path) for path in MODULES if len(text(path).splitlines()) >= length]
        refuse(paths if len(paths) > most else ())


def test_no_more_constants_sink() -> None:
    paths = [shown(path) for path in MODULES if has_low_constants(tree(path))]
    refuse(paths if len(paths) > _LOW_CONSTANTS else ())


def test_functions_are_short() -> None:
    refuse(
        f"{shown(path)}: {node.name}: {_length(node)} lines"
        for path in MODULES
        for node in _functions(path)
        if _length(node) > (_IN_CORE if path.is_relative_to(CORE) else _LINES_PER_FUNCTION)
    )


def test_functions_are_simple() -> None:
    refuse(fault for path in MODULES for fault in _complex_functions(path))


def _complex_functions(path: Path) -> Iterator[str]:
    limit = _COMPLEXITY_IN_CORE if path.is_relative_to(CORE) else _COMPLEXITY
    lines = text(path).splitlines()
    for node in _functions(path):
        # No function is more complex than it has these words; to walk through all takes a second.
        words = _BRANCHING.findall("\n".join(lines[node.lineno - 1 : node.end_lineno]))
        if len(words) >= limit and (found := complexity(node)) > limit:
            yield f"{shown(path)}: {node.name}: complexity {found}"


def test_no_modules_import_one_another() -> None:
    """Imports under `if TYPE_CHECKING` and inside of functions count: a reader has to follow them
    as well.
    """
    graph = imports(PRODUCT.parent, {path: tree(path) for path in MODULES})
    assert "lading.core.containers.container" in graph["lading.api.unit"]
    refuse(" <-> ".join(circle) for circle in circles(graph))


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a", "f"}, "f": {"e"}}
    assert circles(graph) == [["b", "c"], ["e", "f"]]


def test_constants_below_a_definition_are_found() -> None:
    low = "class A: ...\nLIMIT = 5\n"
    assert has_low_constants(ast.parse(low))
    for high in ("LIMIT = 5\nclass A: ...\n", "def f(): ...\nHANDLERS = {'f': f}\n"):
        assert not has_low_constants(ast.parse(high))


def test_folders_are_small() -> None:
    sizes = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    refuse(
        f"{shown(path)}: {count} modules"
        for path, count in sizes.items()
        if count > _MODULES_PER_FOLDER
    )


def test_modules_say_what_they_are() -> None:
    refuse(shown(path) for path in MODULES if not ast.get_docstring(tree(path)))
    refuse(shown(path) for path in MODULES if path.stem in FORBIDDEN_NAMES)


def test_public_class_names_are_unique() -> None:
    where: dict[str, list[str]] = {}
    for path in MODULES:
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                where.setdefault(node.name, []).append(shown(path))
    refuse(f"{name}: {', '.join(paths)}" for name, paths in where.items() if len(paths) > 1)


def test_public_functions_of_core_have_docstrings() -> None:
    refuse(
        f"{shown(path)}: {node.name}"
        for path in modules(CORE)
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    )


def test_only_the_conformance_suites_import_pytest() -> None:
    suites = PRODUCT / "testing" / "conformance"
    refuse(
        shown(path)
        for path in MODULES
        if "pytest" in text(path) and not path.is_relative_to(suites)
        for node in nodes(path)
        if "pytest" in _imported(node)
    )


def _imported(node: ast.AST) -> set[str]:
    """The packages of which a statement imports something."""
    match node:
        case ast.Import(names=names):
            return {one.name.partition(".")[0] for one in names}
        case ast.ImportFrom(module=str(module)):
            return {module.partition(".")[0]}
    return set()


def test_every_module_has_its_test() -> None:
    missing = []
    for path in MODULES:
        if path.name in ("__init__.py", "__main__.py") or path.is_relative_to(PRODUCT / "testing"):
            continue
        package = TESTS / path.parent.relative_to(PRODUCT)
        if not list(package.glob(f"test_{path.stem}*.py")):
            missing.append(shown(path))
    refuse(missing)


def test_commands_run_loops_that_hear_signals() -> None:
    """An exception of a signal handler, at any place of a loop, can leave a task that never ends:
    the functions of `interruption` do otherwise.
    """
    commands = PRODUCT / "cli"
    refuse(
        f"{shown(path)}:{node.lineno}: asyncio.run; take run_in_loop"
        for path in modules(commands)
        if path.name != "interruption.py" and "asyncio.run(" in text(path)
        for node in nodes(path)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "asyncio.run"
    )


def test_no_test_sleeps() -> None:
    refuse(
        shown(path)
        for path in modules(TESTS)
        if path.relative_to(TESTS).parts[0] not in ("system", "security", "docs", "simulation")
        # Most tests need not be parsed.
        if ".sleep(" in text(path)
        for node in nodes(path)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and _waits(node)
    )


def _waits(call: ast.Call) -> bool:
    # `asyncio.sleep(0)` hands the loop over and waits for nothing.
    return not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
