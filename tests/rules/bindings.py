"""Bindings of names in a module: loop variables, arguments, attributes and long-lived locals."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LONG: Final = 5
"""A local whose last use is so many lines or fewer below its first binding is short-lived: its
meaning is on the screen.
"""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Kind(StrEnum):
    """Role of a bound name."""

    LOOP = "loop variable"
    ARGUMENT = "argument"
    ATTRIBUTE = "attribute"
    LOCAL = "local"


@dataclass(frozen=True, order=True)
class Binding:
    """A name with its line and role."""

    line: int
    name: str
    kind: Kind


def bindings(module: ast.Module) -> list[Binding]:
    """All bindings of a module, sorted: a name once for each loop and signature that binds it, an
    attribute once for each class, a long-lived local once for each function.
    """
    collected: set[Binding] = set()
    for node in ast.walk(module):
        match node:
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                collected.update(_targets(node.target, Kind.LOOP))
            case ast.ClassDef():
                collected.update(_attributes(node))
        if isinstance(node, _FUNCTIONS):
            collected.update(_arguments(node.args))
            collected.update(_locals(node))
    return sorted(collected)


def _targets(target: ast.expr, kind: Kind) -> Iterator[Binding]:
    for node in ast.walk(target):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield Binding(node.lineno, node.id, kind)


def _arguments(arguments: ast.arguments) -> Iterator[Binding]:
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for argument in (*named, arguments.vararg, arguments.kwarg):
        if argument is not None:
            yield Binding(argument.lineno, argument.arg, Kind.ARGUMENT)


def _attributes(definition: ast.ClassDef) -> Iterator[Binding]:
    lines: dict[str, int] = {}
    for statement in definition.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name), lineno=line):
                lines.setdefault(name, line)
            case ast.Assign(targets=targets):
                for target in targets:
                    for bound in _targets(target, Kind.ATTRIBUTE):
                        lines.setdefault(bound.name, bound.line)
    for node in ast.walk(definition):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store(), lineno=line):
                lines.setdefault(name, line)
    for name, line in lines.items():
        yield Binding(line, name, Kind.ATTRIBUTE)


def _locals(function: ast.AST) -> Iterator[Binding]:
    """Locals of a function that are used more than `LONG` lines below their first binding."""
    bound: dict[str, int] = {}
    used: dict[str, int] = defaultdict(int)
    loops: set[str] = set()
    for node in _inside(function):
        match node:
            case ast.Name(id=name, ctx=ast.Store(), lineno=line):
                bound[name] = min(line, bound.get(name, line))
            case ast.Name(id=name, ctx=ast.Load(), lineno=line):
                used[name] = max(line, used[name])
            case ast.For(target=target) | ast.AsyncFor(target=target):
                loops.update(loop.name for loop in _targets(target, Kind.LOOP))
            case ast.comprehension(target=target):
                loops.update(loop.name for loop in _targets(target, Kind.LOOP))
    for name, line in bound.items():
        if name not in loops and used[name] - line > LONG:
            yield Binding(line, name, Kind.LOCAL)


def _inside(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, those of functions and classes inside it left out."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            continue
        yield node
        waiting.extend(ast.iter_child_nodes(node))
