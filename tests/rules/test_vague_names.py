"""A name says what it holds: the words of `vague_names.txt` bind no loop variable, argument,
attribute or long-lived local. `vague_names.json` has for each package how many are left; the
number may only fall. `python -m tests.rules.vague_names` lists them, and writes a lower number.
"""

from __future__ import annotations

import ast

import pytest

from tests.rules.bindings import Binding, Kind, bindings
from tests.rules.sources import refuse
from tests.rules.vague_names import counts, limits


def test_no_package_has_more_vague_names_than_before() -> None:
    allowed = limits()
    refuse(
        f"{package}: {count} vague names, {allowed.get(package, 0)} are allowed;"
        f" 'python -m tests.rules.vague_names {package}' lists them"
        for package, count in counts().items()
        if count > allowed.get(package, 0)
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("for one in x: pass", [Binding(1, "one", Kind.LOOP)]),
        ("[one for one, (two, *three) in x]", ["one", "three", "two"]),
        ("def f(a, /, b, *c, d, **e): pass", ["a", "b", "c", "d", "e"]),
        ("lambda found: 0", [Binding(1, "found", Kind.ARGUMENT)]),
        ("class A:\n x: int\n y = z = 1\n def f(self):\n  self.w = 1\n  self.x = 2", 5),
        ("def f():\n a = 1\n\n\n\n\n\n return a", [Binding(2, "a", Kind.LOCAL)]),
        ("def f():\n a = 1\n\n\n\n\n return a", []),
        ("def f():\n a = 1\n def g():\n\n\n\n\n  return a", []),
        ("async def f():\n async for a in x:\n\n\n\n\n\n\n  a", [Binding(2, "a", Kind.LOOP)]),
    ],
)
def test_bindings(source: str, expected: list[Binding | str] | int) -> None:
    made = bindings(ast.parse(source))
    if isinstance(expected, int):
        assert len(made) == expected
    else:
        assert [
            binding if isinstance(name, Binding) else binding.name
            for binding, name in zip(made, expected, strict=True)
        ] == expected
