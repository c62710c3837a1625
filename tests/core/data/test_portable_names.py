"""Names that other file systems take for one, or refuse."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.data.filetree import File, FileTree
from lading.core.data.portable_names import SAMPLES, NameDifference, Twins, first_refused, twins

_CASE, _FORM = NameDifference.CASE, NameDifference.FORM
_COMPOSED, _DECOMPOSED = "caf\xe9", "cafe\u0301"


def _tree(*names: str, **folders: FileTree) -> FileTree:
    return FileTree({**{name: File(()) for name in names}, **folders})


def test_names_that_differ_by_case_alone() -> None:
    assert twins(_tree("a.txt", "A.TXT", "b")) == [Twins("A.TXT", "a.txt", _CASE)]
    assert twins(_tree("straSSe", "stra\xdfe")) == [Twins("straSSe", "stra\xdfe", _CASE)]


def test_names_that_differ_by_the_form_of_a_letter() -> None:
    assert twins(_tree(_COMPOSED, _DECOMPOSED)) == [Twins(_DECOMPOSED, _COMPOSED, _FORM)]


def test_directories_that_would_be_one() -> None:
    found = twins(FileTree({"Out": _tree("x"), "out": _tree("y", "X")}))
    assert [(pair.first, pair.second) for pair in found] == [("Out", "out"), ("Out/x", "out/X")]


def test_other_names_differ() -> None:
    assert twins(_tree("a", "b", _COMPOSED, "cafe")) == []


@given(st.text(min_size=1).filter(lambda text: "/" not in text))
def test_both_forms_of_any_name_are_twins(name: str) -> None:
    forms = {unicodedata.normalize(form, name) for form in ("NFC", "NFD")}
    assert len(twins(_tree(*forms))) == len(forms) - 1


def test_the_samples_differ_as_they_say() -> None:
    for difference, names in SAMPLES.items():
        (found,) = twins(_tree(*names))
        assert found.difference is difference


@pytest.mark.parametrize(
    "name",
    [
        "con",
        "NUL.txt",
        "com1",
        "LPT9.log",
        "a:b",
        "a\\b",
        "c:\\windows",
        "a?",
        "end.",
        "end ",
        "\t",
    ],
)
def test_names_that_windows_cannot_have(name: str) -> None:
    assert first_refused(FileTree({"d": _tree("fine", name)})) == f"d/{name}"


@pytest.mark.parametrize("name", ["console", "com", "com12", "a.con", ".hidden", "a b", "null"])
def test_names_that_windows_can_have(name: str) -> None:
    assert first_refused(_tree(name)) == ""
