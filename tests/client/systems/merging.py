"""A directory of a file system that takes some names for one, as those of macOS and Windows do."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from pathlib import Path

from lading.client.files.folders import PathFolder


def fold_case(name: str) -> str:
    """The name under which a file system finds it that ignores case."""
    return name.casefold()


def decompose(name: str) -> str:
    """The name under which a file system stores it that normalises."""
    return unicodedata.normalize("NFD", name)


class MergingFolder(PathFolder):
    """A directory whose names are stored as `fold` says."""

    def __init__(self, path: Path, fold: Callable[[str], str]) -> None:
        super().__init__(path)
        self._fold = fold

    def enter(self, name: str) -> MergingFolder:
        super().enter(self._fold(name))
        return MergingFolder(self._path / self._fold(name), self._fold)

    def create(self, name: str) -> int:
        return super().create(self._fold(name))

    def has(self, name: str) -> bool:
        return super().has(self._fold(name))

    def rename(self, name: str, target: str) -> None:
        super().rename(self._fold(name), self._fold(target))

    def remove(self, name: str) -> None:
        super().remove(self._fold(name))

    def copy(self) -> MergingFolder:
        return self
