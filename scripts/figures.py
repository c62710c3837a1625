"""`python scripts/figures.py [CHECKOUT] [--way]`: figures of the source code below `src/lading`.

With `--way` also what one request executes of the installed package (`scripts/request_files.py`,
which needs root): some 20 seconds.

Complexity is McCabe's: one for each function, and one more for each branch, loop, exception
handler, `case`, boolean operator, conditional expression and condition of a comprehension in it.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

_SHORT = 100
_WIDE = 100
_COMPLEX = 10
_BRANCHES = (
    ast.If,
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.ExceptHandler,
    ast.IfExp,
    ast.match_case,
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def main(arguments: list[str]) -> None:
    """Print the figures of a checkout."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", nargs="?", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--way", action="store_true", help="print what a request executes too")
    chosen = parser.parse_args(arguments)
    figures = source_figures(chosen.checkout)
    if chosen.way:
        figures |= _way_figures()
    for name, value in figures.items():
        print(f"{name:<48}{value}")


def _way_figures() -> dict[str, object]:
    """Those that `scripts/request_files.py` prints."""
    program = Path(__file__).with_name("request_files.py")
    printed = subprocess.run(
        [sys.executable, program], check=True, stdout=subprocess.PIPE, text=True
    )
    numbers = dict(line.split() for line in printed.stdout.splitlines())
    return {
        "files on a request's way": numbers["files"],
        "functions on a request's way": numbers["functions"],
        "climbs between layers of `create_request`": numbers["climbs"],
    }


def source_figures(checkout: Path) -> dict[str, object]:
    """The figures of a checkout, by name."""
    source = checkout / "src"
    paths = sorted((source / "lading").rglob("*.py"))
    texts = {path: path.read_text() for path in paths}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    lines = [line for text in texts.values() for line in text.splitlines()]
    comments, code = _comments(texts.values())
    complexities = [complexity(one) for tree in trees.values() for one in _functions(tree)]
    folders = Counter(path.parent for path in paths if path.name != "__init__.py")
    largest, modules = folders.most_common(1)[0]
    names = Counter(
        node.name
        for tree in trees.values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    knots = circles(imports(source, trees))
    return {
        "source files": len(paths),
        "lines": len(lines),
        "modules of the largest folder": f"{modules} ({largest.relative_to(source)})",
        "files of 580 lines and more; over 400": _long(texts.values()),
        "modules with constants below a definition": sum(map(has_low_constants, trees.values())),
        "public class names defined twice or more": sum(1 for count in names.values() if count > 1),
        "circles of modules; the largest": f"{len(knots)}; {max(map(len, knots), default=0)}",
        f"modules under {_SHORT} lines with one importer": _lonely(source, texts, trees),
        "complexity, mean": f"{sum(complexities) / len(complexities):.2f}",
        f"functions of complexity over {_COMPLEX}": _share(complexities),
        "lines of comments in lines of code": f"{comments / code:.1%}",
        f"lines over {_WIDE} columns": sum(1 for line in lines if len(line) > _WIDE),
    }


def _long(texts: Iterable[str]) -> str:
    lengths = [len(text.splitlines()) for text in texts]
    return f"{sum(one >= 580 for one in lengths)}; {sum(one > 400 for one in lengths)}"


def has_low_constants(tree: ast.Module) -> bool:
    """Whether a constant of a module stands below its first class or function, and needs none of
    them: often a second subject begins there.
    """
    defined: set[str] = set()
    for node in tree.body:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and defined:
            names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
            if not names & defined:
                return True
    return False


def _share(complexities: list[int]) -> str:
    over = sum(1 for one in complexities if one > _COMPLEX)
    return f"{over} of {len(complexities)} ({over / len(complexities):.1%})"


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, _FUNCTIONS))


def complexity(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The complexity of a function without those that are defined in it."""
    found, rest = 1, list(ast.iter_child_nodes(function))
    while rest:
        node = rest.pop()
        if isinstance(node, _FUNCTIONS):
            continue
        found += isinstance(node, _BRANCHES)
        found += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        found += len(node.ifs) if isinstance(node, ast.comprehension) else 0
        rest += ast.iter_child_nodes(node)
    return found


def _comments(texts: Iterable[str]) -> tuple[int, int]:
    comments, code = set[tuple[int, int]](), set[tuple[int, int]]()
    for number, text in enumerate(texts):
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                comments.add((number, token.start[0]))
            elif token.type not in (tokenize.NL, tokenize.NEWLINE, tokenize.ENDMARKER):
                code.update((number, line) for line in range(token.start[0], token.end[0] + 1))
    return len(comments), len(code)


def imports(source: Path, trees: Mapping[Path, ast.Module]) -> dict[str, set[str]]:
    """The modules that each module imports, also under `if TYPE_CHECKING` and inside of functions.

    `trees` are the parsed files below `source`, the directory of the package.
    """
    names = {path: _module_name(source, path) for path in trees}
    known = set(names.values())
    return {
        names[path]: {
            imported
            for node in ast.walk(tree)
            for imported in _imported(node, known)
            if imported != names[path]
        }
        for path, tree in trees.items()
    }


def _module_name(source: Path, path: Path) -> str:
    return ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__")


def _imported(node: ast.AST, known: Collection[str]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module in known and not node.level:
        # A name of a package is one of its modules, or something that it defines itself.
        for alias in node.names:
            module = f"{node.module}.{alias.name}"
            yield module if module in known else str(node.module)


def circles(graph: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The modules that import one another, directly or not; the largest circle first."""
    reached = {name: _reached(graph, name) for name in graph}
    found = {
        tuple(sorted(other for other in reached[name] if name in reached[other]))
        for name in graph
        if name in reached[name]
    }
    return sorted(map(list, found), key=lambda modules: (-len(modules), modules))


def _reached(graph: Mapping[str, Iterable[str]], start: str) -> set[str]:
    reached, waiting = set[str](), [start]
    while waiting:
        for name in graph[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _lonely(source: Path, texts: dict[Path, str], trees: dict[Path, ast.Module]) -> int:
    names = {path: ".".join(path.relative_to(source).with_suffix("").parts) for path in texts}
    known, importers = set(names.values()), defaultdict[str, set[str]](set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    inner = f"{node.module}.{alias.name}"
                    importers[inner if inner in known else node.module].add(names[path])
    return sum(
        1
        for path, name in names.items()
        if path.name not in ("__init__.py", "__main__.py")
        and len(importers[name]) == 1
        and len(texts[path].splitlines()) < _SHORT
    )


if __name__ == "__main__":
    main(sys.argv[1:])
