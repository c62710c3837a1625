"""The tests of real parts that a change can reach, each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from tests.affected.imports import ImportGraph, modules_of, way
from tests.affected.subjects import COMPOSING, EVERYTHING, NOTHING, PAGES, READERS, SUBJECTS

PAGES_TEST: Final = "tests/docs/test_pages.py"
_PRODUCT: Final = "lading"


@dataclass(frozen=True)
class Choice:
    """Names for pytest, each with the reason why the change can reach it. `everything` says why all
    tests are to be run, "" where the names are enough.
    """

    tests: Mapping[str, str]
    everything: str = ""


def choose(
    changed: Iterable[str], graph: ImportGraph, pages: Mapping[str, tuple[str, ...]]
) -> Choice:
    """The choice for changed paths of the repository, removed ones among them. `pages` has each
    place of the documentation that is played, and the modules of its commands.
    """
    modules: set[str] = set()
    reasons: dict[str, str] = {}
    # Pages first: the file of their test takes longest.
    every = {**{_node(place): "" for place in pages}, **dict.fromkeys(SUBJECTS, "")}
    for path in sorted(changed):
        if _fits(path, EVERYTHING):
            return Choice(every, f"{path} reaches everything")
        if path.endswith(".py") and not path.startswith("plugins/"):
            # An example or a script is also run as a program.
            programs = _readers(path) or ()
            if path.startswith(("src/", "tests/")) or _fits(path, NOTHING):
                programs = ()
            modules |= {name for one in (path, *programs) for name in modules_of(one)}
        elif path.endswith(".md") and path.startswith("docs/"):
            reasons |= {_node(place): f"{path} is played" for place in _places(path, pages)}
        elif path == "README.md" or _fits(path, NOTHING):
            continue
        elif readers := _readers(path):
            for reader in readers:
                modules |= {*modules_of(reader)}
        elif readers is None:
            return Choice(every, f"{path} has no row in tests/affected/subjects.py")
    ends = [name for name in graph.imports if is_below(name, COMPOSING)]
    reached = graph.reach(modules, ends)
    for test, subjects in SUBJECTS.items():
        if reason := _reason(test, subjects, reached, graph):
            reasons.setdefault(test, reason)
    player = graph.needs(modules_of(PAGES_TEST)[0])
    for place, commands in pages.items():
        subjects = (*PAGES.get(place, ()), *commands)
        hit = _subject(subjects, reached) or _helper(player, modules)
        if hit:
            reasons.setdefault(_node(place), hit)
    return Choice({name: reasons[name] for name in every if name in reasons})


def is_below(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of these, or in one of these packages; the product's own package has
    no others here.
    """
    return any(
        module == one or (one != _PRODUCT and module.startswith(f"{one}.")) for one in packages
    )


def is_known(path: str) -> bool:
    """Whether a file that is no Python has a row."""
    return (
        _fits(path, (*EVERYTHING, *NOTHING, "docs/*.md", "README.md")) or _readers(path) is not None
    )


def _reason(
    test: str, subjects: tuple[str, ...], reached: Mapping[str, str], graph: ImportGraph
) -> str:
    name = modules_of(test)[0]
    if name in reached and reached[name] == name:
        return "changed itself"
    needed = graph.needs(name)
    changed = {one for one, origin in reached.items() if one == origin}
    if reason := _helper(needed, changed):
        return reason
    for one in sorted(needed):
        if (
            one.startswith(f"{_PRODUCT}.")
            and one in reached
            and not one.startswith("lading.wiring")
        ):
            return f"imports {_shown(way(reached, one))}"
    return _subject(subjects, reached)


def _helper(needed: Iterable[str], changed: Iterable[str]) -> str:
    helpers = sorted({*needed} & {*changed})
    return f"imports {helpers[0]}" if helpers else ""


def _subject(subjects: Iterable[str], reached: Mapping[str, str]) -> str:
    packages = [f"{_PRODUCT}.{subject}" for subject in subjects]
    for module in reached:
        # A module that puts everything together says something by its own change alone.
        is_direct = reached[module] == module
        if is_below(module, packages) and (is_direct or not is_below(module, COMPOSING)):
            return f"exercises {_shown(way(reached, module))}"
    return ""


def _shown(modules: list[str]) -> str:
    names = [name.removeprefix(f"{_PRODUCT}.") for name in modules]
    return names[0] if len(names) == 1 else f"{names[0]} < {' < '.join(names[1:])}"


def _node(place: str) -> str:
    return f"{PAGES_TEST}::test_a_page[{place}]"


def _places(path: str, pages: Iterable[str]) -> list[str]:
    return [place for place in pages if place.partition("#")[0] == path]


def _readers(path: str) -> tuple[str, ...] | None:
    return next((names for glob, names in READERS.items() if fnmatchcase(path, glob)), None)


def _fits(path: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(path, glob) for glob in globs)


def commands(text: str) -> set[str]:
    """The commands of `lading` in a text."""
    return set(re.findall(r"\blading (\w+)", text))
