"""Tests use what modules and objects offer: a limit or a time is passed in, a fake is public.

A private name (`_name`) that a test patches, sets or reads ties the test to the way a part works.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator

from tests.rules.sources import TESTS, modules, nodes, refuse, shown, text

_PRIVATE = re.compile(r"_[A-Za-z]\w*")
_SETTERS = ("setattr", "delattr", "__setattr__", "patch", "object")
# Only files in which one of these is found are parsed.
_SUSPECT = re.compile(
    r"(?<!\bself)(?<!\bcls)\._[A-Za-z]|[\"'.]_[A-Za-z]\w*[\"']|^from lading[^)\n]*?import[^)]*?\b_",
    re.MULTILINE,
)


def test_tests_leave_private_names_alone() -> None:
    refuse(
        f"{shown(path)}: {name} is private; pass the value in, or test what the part does"
        for path in modules(TESTS)
        if _SUSPECT.search(text(path))
        for name in _uses(nodes(path))
    )


def test_the_rule_sees_private_names() -> None:
    source = """
from lading.a import _b
monkeypatch.setattr(module, "_LIMIT", 1)
monkeypatch.setattr("lading.a._LIMIT", 1)
monkeypatch.setattr(os, "open", opened)
made._timeout = 0.0
assert made.inner._queue == []
os._exit(0)
class Fake:
    def __init__(self): self._own = 1
fake._own = 2
"""
    assert len(list(_uses(tuple(ast.walk(ast.parse(source)))))) == 5


def _uses(found: tuple[ast.AST, ...]) -> Iterator[str]:
    """Uses of private names of others in the nodes of a module."""
    own = {one for node in found for one in _defined(node)}
    for node in found:
        match node:
            case ast.Attribute(value=value, attr=name) if _PRIVATE.fullmatch(name):
                if name not in own and not _may_use(value):
                    yield name
            case ast.Call(func=ast.Attribute(attr=setter) | ast.Name(id=setter), args=args):
                if setter in _SETTERS:
                    yield from (one for one in map(_named, args[:2]) if _PRIVATE.fullmatch(one))
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("lading"):
                yield from (one.name for one in names if _PRIVATE.fullmatch(one.name))


def _defined(node: ast.AST) -> Iterator[str]:
    """Names that a module gives to its own classes and functions."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
            yield name
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _may_use(value: ast.expr) -> bool:
    """Whether an object is the test's own, or a module of the standard library (`os._exit`)."""
    match value:
        case ast.Name(id="self" | "cls") | ast.Call(func=ast.Name(id="super")):
            return True
        case ast.Name(id=name):
            return name in sys.stdlib_module_names
    return False


def _named(argument: ast.expr) -> str:
    """The last part of a name that is given as a text, or ""."""
    match argument:
        case ast.Constant(value=str(name)):
            return name.rpartition(".")[2]
    return ""
