"""Docstrings have short sentences that begin with their noun. `sentences.json` has for each package
how many do not; the number may only fall. `python -m tests.rules.sentences` prints the worst.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.rules.sentences import Sentence, count_words, counts, limits, sentences
from tests.rules.sources import refuse


def test_no_package_has_more_bad_sentences_than_before() -> None:
    allowed = limits()
    refuse(
        f"{package}: {count} sentences of docstrings are too long or begin without a noun,"
        f" {allowed.get(package, 0)} are allowed; 'python -m tests.rules.sentences {package}'"
        " prints the worst"
        for package, count in counts().items()
        if count > allowed.get(package, 0)
    )


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("One. Two (three).\n\nFour.", ["One.", "Two (three).", "Four."]),
        ("Rules:\n- a\n  b\n- c", ["Rules:", "a b", "c"]),
        ("Table.\n\n| a | b |", ["Table."]),
        ("Sizes.\n\nram     bytes", ["Sizes."]),
    ],
)
def test_sentences(docstring: str, expected: list[str]) -> None:
    assert list(sentences(docstring)) == expected


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("Two words.", 2),
        ("A: b, c, d, e", 1),
        ("A: b, c", 3),
        ("a b; c; d e f", 3),
        ("a; b - c", 3),
    ],
)
def test_words(sentence: str, words: int) -> None:
    assert count_words(sentence) == words


@pytest.mark.parametrize(
    ("text", "is_bad"),
    [("What is kept.", True), ("Whatever.", True), ("Whether it ends.", False), ("A row.", False)],
)
def test_openings(text: str, is_bad: bool) -> None:
    assert Sentence(2, Path(), 1, text).opens_badly is is_bad
