"""Names in backquotes exist: modules, their attributes, files, and keys of the configuration that
docstrings, comments and pages cite.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from lading.config.site import RETIRED, Config
from tests.rules.sources import PRODUCT, ROOT, modules, refuse, shown, text, tree

MODULES = modules(PRODUCT)
DOCUMENTS = sorted((ROOT / "docs").rglob("*.md"))
_PACKAGES = {path.name for path in PRODUCT.iterdir() if (path / "__init__.py").exists()}
_FOLDERS = {"bench", "docs", "examples", "plugins", "scripts", "src", "tests"}
_QUOTED = re.compile(r"`([^`\n]+)`")
_DOTTED = re.compile(r"(?:lading\.)?([a-z]\w*(?:\.\w+)+)")
_COMMENT = re.compile(r"(?:^|  |^ +)# .*")
_FILE = re.compile(r"([a-z]\w*)(?:/\w+)+\.py")
_KEY = re.compile(r"([A-Z]\w*(?:\.[A-Z]\w*)+)")
# Keys by a name of the site's own: `Volumes.<uuid>`, `InstanceTypes.<name>`.
_REPEATED = {"Volumes", "InstanceTypes"}
# Endings of names of files, which look like attributes.
_ENDINGS = (".json", ".log", ".yml")
# Keys of Arvados that Lading does not have, and a field of messages.
_ELSEWHERE = {"Containers.LocalKeepBlobBuffersPerVCPU", "tes.tag.NAME"}


def _prose(path: Path) -> Iterator[tuple[int, str]]:
    """Docstrings and comments of a module, with their lines."""
    for node in ast.walk(tree(path)):
        match node:
            case ast.Expr(value=ast.Constant(value=str(words), lineno=line)):
                yield line, words
    for number, words in enumerate(text(path).splitlines(), 1):
        if comment := _COMMENT.search(words):
            yield number, comment[0]


def _quoted(path: Path) -> Iterator[tuple[int, str]]:
    for line, words in _prose(path):
        for name in _QUOTED.findall(words):
            yield line, name


@cache
def _names(path: Path) -> frozenset[str]:
    """Names that a module defines or imports, and the attributes of its classes."""
    names: set[str] = set()
    for node in ast.walk(tree(path)):
        match node:
            case (
                ast.FunctionDef(name=name)
                | ast.AsyncFunctionDef(name=name)
                | ast.ClassDef(name=name)
            ):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names.add(alias or name)
    return frozenset(names)


def _exists(name: str) -> bool:
    """Whether a dotted name below `lading` is a module, or a name in one."""
    top, *steps = name.split(".")
    place = PRODUCT / top
    while steps:
        step = steps[0]
        if (place / step).is_dir():
            place /= step
        elif (place / f"{step}.py").exists():
            return all(inner in _names(place / f"{step}.py") for inner in steps[1:])
        else:
            return all(inner in _names(place / "__init__.py") for inner in steps)
        steps = steps[1:]
    return True


@cache
def _keys() -> frozenset[str]:
    def below(section: object, prefix: str) -> Iterator[str]:
        for field in dataclasses.fields(section):  # type: ignore[arg-type]
            yield f"{prefix}{field.name}"
            value = getattr(section, field.name)
            if dataclasses.is_dataclass(value):
                yield from below(value, f"{prefix}{field.name}.")

    return frozenset(below(Config(), ""))


def _is_key(name: str) -> bool:
    top = name.partition(".")[0]
    if top in _REPEATED or f"{top}." not in {key[: len(top) + 1] for key in _keys()}:
        return True
    return name in _keys() or any(
        name.startswith(f"{key}.") and not _is_section(key) for key in _keys()
    )


def _is_section(name: str) -> bool:
    return any(key.startswith(f"{name}.") for key in _keys())


def _dotted_faults(name: str) -> bool:
    if name in _ELSEWHERE or name.endswith(_ENDINGS):
        return False
    found = _DOTTED.fullmatch(name)
    return bool(found and found[1].partition(".")[0] in _PACKAGES and not _exists(found[1]))


def test_modules_and_their_names_exist() -> None:
    refuse(
        f"{shown(path)}:{line}: `{name}`"
        for path in MODULES
        for line, name in _quoted(path)
        if _dotted_faults(name)
    )


def test_files_exist() -> None:
    refuse(
        f"{shown(path)}: `{name}`"
        for path in [*MODULES, *DOCUMENTS]
        for name in (
            [name for _, name in _quoted(path)]
            if path.suffix == ".py"
            else _QUOTED.findall(text(path))
        )
        if (path_of := _FILE.fullmatch(name))
        and path_of[1] in _PACKAGES | _FOLDERS
        and not any((top / name).exists() for top in (ROOT, ROOT / "src", PRODUCT))
    )


def test_keys_of_the_configuration_exist() -> None:
    refuse(
        f"{shown(path)}: `{name}`"
        for path in [*MODULES, *DOCUMENTS]
        for name in (
            [name for _, name in _quoted(path)]
            if path.suffix == ".py"
            else _QUOTED.findall(text(path))
        )
        if _KEY.fullmatch(name) and name not in _ELSEWHERE and not _is_key(name)
    )


def test_the_rules_see_what_is_gone() -> None:
    assert _dotted_faults("core.placement")
    assert _dotted_faults("lading.process.confined.nothing")
    assert not _dotted_faults("process.confined.ConfinedTree")
    assert not _dotted_faults("os.path")
    assert not _is_key(min(RETIRED))
    assert _is_key("API.MaxItemsPerResponse")
    assert _is_key("Containers.Retry.oom")
