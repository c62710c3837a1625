"""Writes the files of a crate, one after another, into a directory or an archive.

Each file is hashed while it is written. Nothing but the paths is kept in memory: lists of JSON that
grow with the crate are collected in a temporary file.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

from lading.client.provenance.crate_sinks import open_sink
from lading.core.provenance.run_crate import CrateFile

CHECKSUMS: Final = "checksums.sha256"
_ESCAPES: Final = (("\\", "\\\\"), ("\n", "\\n"), ("\r", "\\r"))


class CrateWriter:
    """A new crate at `place`: a directory, or an archive if `packed`."""

    def __init__(self, path: Path, *, packed: bool) -> None:
        self._path = path
        self._sink = open_sink(path, packed=packed)
        self.files: list[str] = []
        """The paths of all files."""
        self._sums = tempfile.TemporaryFile("w+", newline="")  # noqa: SIM115 (closed by close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._sums.close()
        self._sink.close()

    def write(self, path: str, pieces: Iterable[bytes]) -> CrateFile:
        """Write a file in pieces."""
        with self.writing(path) as file:
            for piece in pieces:
                file.add(piece)
        return file.made()

    @contextmanager
    def writing(self, path: str) -> Generator[CrateFileWriter]:
        """A file that grows; one at a time."""
        with self._sink.opened(path) as raw:
            file = CrateFileWriter(path, raw)
            yield file
        self.files.append(path)
        self._sums.write(checksum_line(file.made()))

    def write_json(self, path: str, value: Any) -> CrateFile:
        """Write a document."""
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        return self.write(path, [text.encode("utf-8", "surrogatepass")])

    def finish(self) -> bytes:
        """Write the checksums of all files, and return them."""
        self._sums.seek(0)
        text = self._sums.read().encode()
        self._sink_all(text)
        return text

    def add_signature(self, signature: str) -> None:
        """Write the signature of the checksums."""
        with self._sink.opened(f"{CHECKSUMS}.sig") as raw:
            raw.write(signature.encode())

    def _sink_all(self, checksums: bytes) -> None:
        with self._sink.opened(CHECKSUMS) as raw:
            raw.write(checksums)


def checksum_line(file: CrateFile) -> str:
    """The line of a file as `sha256sum` writes it: a name with a line break is escaped."""
    name = file.path
    for character, written in _ESCAPES:
        name = name.replace(character, written)
    mark = "\\" if name != file.path else ""
    return f"{mark}{file.sha256}  {name}\n"


def unescaped(name: str) -> str:
    """The name in an escaped line."""
    return re.sub(r"\\([\\nr])", lambda match: {"n": "\n", "r": "\r"}.get(match[1], "\\"), name)


class CrateFileWriter:
    """A file of a crate while it is written."""

    def __init__(self, path: str, raw: IO[bytes]) -> None:
        self._path, self._raw = path, raw
        self._digest = hashlib.sha256()
        self._size = 0

    def add(self, piece: bytes) -> None:
        """Write some bytes."""
        self._raw.write(piece)
        self._digest.update(piece)
        self._size += len(piece)

    def made(self) -> CrateFile:
        """Summary of the written crate."""
        return CrateFile(path=self._path, size=self._size, sha256=self._digest.hexdigest())


class JsonSpool:
    """JSON values in a temporary file, to be part of a list in a document later."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(  # noqa: SIM115 - closed by `__exit__`
            "w+", encoding="utf-8", errors="surrogatepass"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, values: Iterable[Any]) -> None:
        """Add values at the end."""
        for value in values:
            self._file.write(json.dumps(value, ensure_ascii=False) + "\n")

    def document(
        self, name: str, members: dict[str, Any], first: Iterable[Any] = ()
    ) -> Iterator[bytes]:
        """The pieces of an object with `members`, and with a list of this name: the values of
        `first`, then all added values.
        """
        head = json.dumps(members, indent=1, ensure_ascii=False)[:-1].rstrip()
        comma = "," if members else ""
        yield f'{head}{comma}\n "{name}": [\n'.encode()
        self._file.seek(0)
        lines = (json.dumps(value, ensure_ascii=False) for value in first)
        before = ""
        for source in (lines, self._file):
            for line in source:
                yield f"{before}  {line.rstrip()}".encode("utf-8", "surrogatepass")
                before = ",\n"
        yield b"\n ]\n}\n"
