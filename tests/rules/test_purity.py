"""`core` is pure: it decides, and touches nothing. An import contract covers modules; this covers
what they do.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from tests.rules.sources import PRODUCT, modules, nodes, refuse, shown

ALLOWED_IMPORTS = {
    "__future__", "base64", "bisect", "collections", "collections.abc", "csv", "dataclasses",
    "datetime", "enum", "functools", "hashlib", "heapq", "hmac", "html", "ipaddress", "itertools",
    "json", "math", "msgspec", "operator", "posixpath", "re", "shlex", "string", "struct", "types",
    "typing", "unicodedata", "urllib.parse", "xml.parsers", "xml.sax.saxutils", "zlib",
}  # fmt: skip
IMPURE_CALLS = {
    "open",
    "print",
    "input",
    "exec",
    "eval",
    "globals",
    "breakpoint",
    "__import__",
    "id",
}
IMPURE_ATTRIBUTES = {"now", "utcnow", "today", "getLogger", "urandom", "token_hex"}


def test_core_is_pure() -> None:
    refuse(
        f"{shown(path)}, {fault}"
        for path in modules(PRODUCT / "core")
        for fault in _impurities(nodes(path))
    )


def test_the_rule_sees_an_impurity() -> None:
    tree = ast.parse(
        "import time\nasync def f():\n    global x\n    x = datetime.now()\n    open('y')\n"
    )
    assert len(_impurities(ast.walk(tree))) == 5


def _impurities(nodes: Iterable[ast.AST]) -> list[str]:
    found = []
    for node in nodes:
        fault = _fault(node)
        if fault:
            found.append(f"line {getattr(node, 'lineno', 0)}: {fault}")
    return found


def _fault(node: ast.AST) -> str:
    match node:
        case ast.Import(names=names):
            return next(
                (f"import {one.name}" for one in names if one.name not in ALLOWED_IMPORTS), ""
            )
        case ast.ImportFrom(module=str(module)):
            allowed = module in ALLOWED_IMPORTS or module.startswith("lading.core")
            return "" if allowed else f"from {module} import"
        case ast.AsyncFunctionDef() | ast.Await() | ast.AsyncWith() | ast.AsyncFor():
            return "async"
        case ast.Global() | ast.Nonlocal():
            return "global or nonlocal state"
        case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
            return f"calls {name}()"
        case ast.Call(func=ast.Attribute(attr=name)) if name in IMPURE_ATTRIBUTES:
            return f"calls .{name}()"
    return ""
