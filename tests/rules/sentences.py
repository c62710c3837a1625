"""`python -m tests.rules.sentences [PACKAGE...]`: print the twenty longest sentences of docstrings
and twenty forbidden openings, of packages of the product. Without a package also the numbers;
numbers that have fallen become the limit.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.rules.sources import PRODUCT, modules, nodes, shown, text

MOST: Final = 25
"""Words of a sentence that is no list."""
_LIMITS: Final = Path(__file__).with_suffix(".json")
_SHOWN: Final = 20
_OPENINGS: Final = (
    "As above", "As before", "As it", "For people", "That which", "The last of all", "The others",
    "The rest", "Those", "What", "Whatever", "Which", "Whoever",
)  # fmt: skip
"""Beginnings of a sentence without a noun."""
_OPENING: Final = re.compile(rf"(?:{'|'.join(_OPENINGS)})\b")
_END: Final = re.compile(r"(?<=[.!?])(?:[\"')`]*)\s+(?=[A-Z`\"'({])")
_WORD: Final = re.compile(r"\S*\w\S*")
_PARAGRAPH: Final = re.compile(r"\n\s*\n")
_ITEM: Final = re.compile(r"(?m)^\s*[-*] ")
_DRAWN: Final = re.compile(r"(?m)\S   |^\s{4,}\S|^\s*\||\x08|-->|::$")
_LISTED: Final = 3
"""Commas or semicolons behind a colon, or items between semicolons, that make a list."""


@dataclass(frozen=True, order=True)
class Sentence:
    """A sentence of a docstring, with the line of the docstring and the number of its words."""

    words: int
    path: Path
    line: int
    text: str

    @property
    def is_long(self) -> bool:
        """Whether it has more words than a reader keeps in mind."""
        return self.words > MOST

    @property
    def opens_badly(self) -> bool:
        """Whether it begins without the noun that it is about."""
        return _OPENING.match(self.text) is not None


def sentences(docstring: str) -> Iterator[str]:
    """The sentences of a docstring, each in one line. Code, tables and drawings are left out."""
    for paragraph in _PARAGRAPH.split(docstring):
        if _DRAWN.search(paragraph) is None:
            for item in _ITEM.split(paragraph):
                yield from _END.split(" ".join(item.split()))


def count_words(sentence: str) -> int:
    """Words of a sentence; of a list the words of its longest item."""
    before, colon, after = sentence.partition(": ")
    if colon and len(re.findall("[,;]", after)) >= _LISTED:
        sentence = before
    items = sentence.split(";")
    if len(items) < _LISTED:
        items = [sentence]
    return max(len(_WORD.findall(item)) for item in items)


def read(path: Path) -> Iterator[Sentence]:
    """The sentences of the docstrings of a module, those of constants and attributes included."""
    for node in nodes(path):
        match node:
            case ast.Expr(value=ast.Constant(value=str(docstring), lineno=line)):
                for sentence in sentences(_dedent(docstring)):
                    yield Sentence(count_words(sentence), path, line, sentence)


def _dedent(docstring: str) -> str:
    first, *further = docstring.split("\n")
    margin = min((len(line) - len(line.lstrip()) for line in further if line.strip()), default=0)
    return "\n".join((first, *(line[margin:] for line in further)))


def faults() -> Iterator[Sentence]:
    """Each sentence of the product that is too long or opens badly."""
    for path in modules(PRODUCT):
        for sentence in read(path):
            if sentence.is_long or sentence.opens_badly:
                yield sentence


def counts() -> dict[str, int]:
    """The number of such sentences of each package."""
    numbers = dict.fromkeys(sorted({_package(path) for path in modules(PRODUCT)}), 0)
    for sentence in faults():
        numbers[_package(sentence.path)] += 1
    return numbers


def limits() -> dict[str, int]:
    """The number of such sentences that each package may have."""
    numbers: dict[str, int] = json.loads(text(_LIMITS))
    return numbers


def _package(path: Path) -> str:
    first, *further = path.relative_to(PRODUCT).parts
    return first if further else "lading"


def main(packages: list[str]) -> None:
    """Print the worst sentences; without `packages` also the numbers, and lower the limits."""
    chosen = [
        sentence for sentence in faults() if not packages or _package(sentence.path) in packages
    ]
    opening = [sentence for sentence in chosen if sentence.opens_badly]
    longest = sorted((sentence for sentence in chosen if sentence.is_long), reverse=True)
    for sentence in (*opening[:_SHOWN], *longest[:_SHOWN]):
        print(f"{shown(sentence.path)}:{sentence.line}: {sentence.words} words: {sentence.text}")
    if packages:
        return
    numbers, allowed = counts(), limits() if _LIMITS.exists() else {}
    for package, count in numbers.items():
        print(f"{package:<12} {count:>5}")
    print(f"{'all':<12} {sum(numbers.values()):>5}")
    lowered = {
        package: min(count, allowed.get(package, count)) for package, count in numbers.items()
    }
    _LIMITS.write_text(json.dumps(lowered, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
