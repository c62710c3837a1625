"""Names of files that another file system than Linux' own takes for one, or refuses.

The file systems of macOS and Windows take names that differ by case alone for one; that of macOS
also those that differ by the form of a letter with an accent (Unicode, normalisation forms).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

import msgspec

from lading.core.data import filetree
from lading.core.data.filetree import FileTree

_COMPOSED: Final = "NFC"
# "Naming Files, Paths, and Namespaces" in the documentation of Windows.
_DEVICE: Final = r"con|prn|aux|nul|(com|lpt)[0-9\xb9\xb2\xb3]"
_REFUSED: Final = re.compile(rf"""[<>:"\\|?*\x00-\x1f]|[ .]$|^({_DEVICE})(\.|$)""", re.IGNORECASE)


class NameDifference(StrEnum):
    """The difference of two names that are one elsewhere."""

    CASE = "case"
    FORM = "the form of a letter"


SAMPLES: Final[Mapping[NameDifference, tuple[str, str]]] = MappingProxyType(
    {NameDifference.CASE: ("a", "A"), NameDifference.FORM: ("\xe9", "e\u0301")}
)
"""Two letters with each difference, to try a file system."""


class Twins(msgspec.Struct, frozen=True):
    """Two paths that are one path on some file systems, and the difference between them."""

    first: str
    second: str
    difference: NameDifference


def twins(tree: FileTree) -> list[Twins]:
    """The paths of files and directories that differ by case or form alone, each with the first
    such path; in the order of the tree.
    """
    firsts: dict[str, str] = {}
    result = []
    for path, _ in filetree.walk(tree):
        first = firsts.setdefault(_folded(path), path)
        if first != path:
            result.append(Twins(first, path, _difference(first, path)))
    return result


def first_refused(tree: FileTree) -> str:
    """The first path of a tree with a name that Windows cannot have; "" if there is none."""
    for path, _ in filetree.walk(tree):
        if _REFUSED.search(path.rpartition("/")[2]):
            return path
    return ""


def _folded(path: str) -> str:
    if path.isascii():
        return path.lower()
    return unicodedata.normalize(_COMPOSED, unicodedata.normalize(_COMPOSED, path).casefold())


def _difference(first: str, second: str) -> NameDifference:
    forms = (unicodedata.normalize(_COMPOSED, path) for path in (first, second))
    return NameDifference.FORM if len({*forms}) == 1 else NameDifference.CASE
