"""Queries of the store take a reader, or the table says why they need none."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

from tests.rules.sources import PRODUCT, modules, refuse, tree
from tests.rules.store_readers import READER, WITHOUT_READER

STORE = PRODUCT / "store"
# The databases themselves, whose statements are those of the other modules.
_DATABASES = frozenset(
    {
        "database",
        "postgres",
        "postgres_link",
        "sqlite",
        "sqlite_faults",
        "sqlite_reading",
        "write_turn",
    }
)


def _queries(body: list[ast.stmt], where: str) -> Iterator[tuple[str, ast.AsyncFunctionDef]]:
    """The public functions and methods that answer something, with their names."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _queries(node.body, f"{where}.{node.name}")
        elif (
            isinstance(node, ast.AsyncFunctionDef)
            and not node.name.startswith("_")
            and not (isinstance(node.returns, ast.Constant) and node.returns.value is None)
        ):
            yield f"{where}.{node.name}", node


def _takes_reader(node: ast.AsyncFunctionDef) -> bool:
    arguments = node.args
    names = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return not READER.isdisjoint(names)


def _without_reader(module: str, content: ast.Module) -> set[str]:
    return {name for name, node in _queries(content.body, module) if not _takes_reader(node)}


def _of_the_store() -> set[str]:
    found: set[str] = set()
    for path in modules(STORE):
        if path.stem not in _DATABASES:
            found |= _without_reader(path.stem, tree(path))
    return found


def test_each_query_takes_a_reader_or_says_why_not() -> None:
    refuse(
        f"{name}: takes no reader ({', '.join(sorted(READER))}) and is not in {_TABLE}"
        for name in sorted(_of_the_store() - WITHOUT_READER.keys())
    )


def test_the_table_has_no_rows_of_what_is_gone() -> None:
    refuse(
        f"{name}: in {_TABLE}, but there is no such query without a reader"
        for name in sorted(WITHOUT_READER.keys() - _of_the_store())
    )


def test_modules_of_the_store_have_different_names() -> None:
    stems = [path.stem for path in modules(STORE) if path.stem != "__init__"]
    assert len(stems) == len(set(stems))


def test_what_counts_as_a_query() -> None:
    source = dedent(
        """
        async def found(tx, *, reader: str) -> list[str]: ...
        async def earlier(tx, readable) -> list[str]: ...
        async def written(tx) -> None: ...
        async def _inner(tx) -> int: ...
        def text() -> str: ...
        async def bare(tx) -> int: ...
        class Rows:
            async def read(self) -> int: ...
            async def write(self) -> None: ...
        class _Inner:
            async def read(self) -> int: ...
        """
    )
    assert _without_reader("m", ast.parse(source)) == {"m.bare", "m.Rows.read"}


_TABLE = Path("tests/rules/store_readers.py")
