"""Targets for the files of a crate or a bag: a new directory, or a new archive."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final, Protocol

_STORED: Final = ("data/", "blocks/")
"""Directories whose files an archive does not compress: most of them are compressed already."""
_PIECE: Final = 1 << 20


def open_sink(path: Path, *, packed: bool) -> FileSink:
    """A new directory at `path`, or a new archive if `packed`."""
    return _ArchiveSink(path) if packed else _DirectorySink(path)


class FileSink(Protocol):
    """Takes files, one after another."""

    def opened(self, path: str) -> Any:
        """A context manager of the file to write."""

    def adopt(self, path: str, file: Path) -> None:
        """Take a finished file, which is gone afterwards."""

    def close(self) -> None:
        """Finish."""


class _DirectorySink:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir()
        self._directories: set[str] = set()

    @contextmanager
    def opened(self, path: str) -> Generator[IO[bytes]]:
        with self._room(path).open("xb") as file:
            yield file

    def adopt(self, path: str, file: Path) -> None:
        file.rename(self._room(path))

    def _room(self, path: str) -> Path:
        parent = str(PurePosixPath(path).parent)
        if parent not in self._directories:
            (self._path / parent).mkdir(parents=True, exist_ok=True)
            self._directories.add(parent)
        return self._path / path

    def close(self) -> None:
        pass


class _ArchiveSink:
    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path, "x", allowZip64=True)

    @contextmanager
    def opened(self, path: str) -> Generator[IO[bytes]]:
        # A fixed time: the same crate is the same archive.
        entry = zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        is_stored = path.startswith(_STORED)
        entry.compress_type = zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED
        with self._zip.open(entry, "w", force_zip64=is_stored) as file:
            yield file

    def adopt(self, path: str, file: Path) -> None:
        with file.open("rb") as source, self.opened(path) as target:
            shutil.copyfileobj(source, target, _PIECE)
        file.unlink()

    def close(self) -> None:
        self._zip.close()
