"""Writes the files of a bag, one after another, into a directory or an archive.

Files of the payload are named by the SHA-1 of their content, so that each content is there once.
Checksums are collected in temporary files; nothing else that grows with the bag is in memory.

Source: https://www.rfc-editor.org/rfc/rfc8493 (BagIt 1.0).
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Final, Self

from lading.client.provenance.crate_sinks import open_sink
from lading.core.provenance.cwl_values import StoredFile, data_path
from lading.core.provenance.prov_records import KINDS, ProvRecord, prov_json, prov_n, prov_n_head

TAG_CHECKSUMS: Final = "tagmanifest-sha512.txt"
_DIGESTS: Final = ("sha1", "sha512")
_BAGIT: Final = b"BagIt-Version: 1.0\nTag-File-Character-Encoding: UTF-8\n"


class BagWriter:
    """A new bag at `place`: a directory, or an archive if `packed`. The directory of `place` has
    room for one file of the payload at a time.
    """

    def __init__(self, path: Path, *, packed: bool) -> None:
        self._path = path
        self._sink = open_sink(path, packed=packed)
        self._exit_stack = ExitStack()
        self._payload, self._tags = (
            {name: self._exit_stack.enter_context(_spool()) for name in _DIGESTS} for _ in range(2)
        )
        self._contents: set[str] = set()
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()
        self._sink.close()

    def data(self) -> PayloadFile:
        """A file of the payload that grows; a context manager."""
        return PayloadFile(self, self._path.with_name(f"{self._path.name}.part"))

    def keep(self, digests: Mapping[str, str], size: int, file: Path) -> bool:
        """Take a finished file of the payload; whether its content is new."""
        path = data_path(digests["sha1"])
        if digests["sha1"] in self._contents:
            file.unlink()
            return False
        self._contents.add(digests["sha1"])
        self._size += size
        self._sink.adopt(path, file)
        _note(self._payload, path, digests)
        return True

    @contextmanager
    def writing(self, path: str) -> Generator[TagFile]:
        """A file outside the payload that grows; one at a time."""
        with self._sink.opened(path) as raw:
            file = TagFile(raw)
            yield file
        _note(self._tags, path, file.digests())

    def write(self, path: str, pieces: Iterable[bytes]) -> None:
        """Write a file outside the payload in pieces."""
        with self.writing(path) as file:
            for piece in pieces:
                file.add(piece)

    def write_json(self, path: str, value: Any) -> None:
        """Write a document."""
        self.write(path, [(json.dumps(value, indent=2, default=str) + "\n").encode()])

    def finish(self, information: Sequence[tuple[str, str]]) -> bytes:
        """Write the checksums and `bag-info.txt`; the checksums of the tags, to sign them."""
        self.write("bagit.txt", [_BAGIT])
        lines = [*information, ("Payload-Oxum", f"{self._size}.{len(self._contents)}")]
        text = "".join(f"{name}: {' '.join(value.split())}\n" for name, value in lines)
        self.write("bag-info.txt", [text.encode("utf-8", "replace")])
        for name in _DIGESTS:
            self.write(f"manifest-{name}.txt", _read(self._payload[name]))
        signed = b""
        for name in _DIGESTS:
            signed = b"".join(_read(self._tags[name]))
            with self._sink.opened(f"tagmanifest-{name}.txt") as raw:
                raw.write(signed)
        return signed

    def add_signature(self, signature: str) -> None:
        """Write the signature of the checksums."""
        with self._sink.opened(f"{TAG_CHECKSUMS}.sig") as raw:
            raw.write(signature.encode())


class TagFile:
    """A file outside the payload while it is written."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw, self._sums = raw, _digests()

    def add(self, piece: bytes) -> None:
        """Write some bytes."""
        self._raw.write(piece)
        for checksum in self._sums.values():
            checksum.update(piece)

    def digests(self) -> dict[str, str]:
        """The checksums of the written bytes, in hex digits, by their algorithms."""
        return {name: checksum.hexdigest() for name, checksum in self._sums.items()}


class PayloadFile:
    """A file of the payload while it is written."""

    def __init__(self, bag: BagWriter, path: Path) -> None:
        self._bag, self._path = bag, path
        self._digests = _digests()
        self._size = 0
        self._raw: IO[bytes] = path.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._raw.close()
        self._path.unlink(missing_ok=True)

    def add(self, piece: bytes) -> None:
        """Write some bytes."""
        self._raw.write(piece)
        for digest in self._digests.values():
            digest.update(piece)
        self._size += len(piece)

    def finish(self) -> tuple[StoredFile, bool]:
        """Put the file into the bag; the stored file, and whether its content is new there."""
        self._raw.close()
        digests = {name: digest.hexdigest() for name, digest in self._digests.items()}
        is_new = self._bag.keep(digests, self._size, self._path)
        return StoredFile(digests["sha1"], self._size), is_new


class ProvSpool:
    """Records of PROV in temporary files, to become documents in PROV-N and PROV-JSON."""

    def __init__(self) -> None:
        self._exit_stack = ExitStack()
        self._prov_n = self._exit_stack.enter_context(_spool())
        self._kinds = {kind: self._exit_stack.enter_context(_spool()) for kind in KINDS}
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._exit_stack.close()

    def add(self, records: Iterable[ProvRecord]) -> None:
        """Add records at the end."""
        for record in records:
            self._number += 1
            self._prov_n.write(f"  {prov_n(record)}\n")
            key = json.dumps(record.key or f"_:r{self._number}")
            self._kinds[record.kind].write(f"{key}: {json.dumps(prov_json(record))}\n")

    def prov_n(self, prefixes: Mapping[str, str]) -> Iterator[bytes]:
        """The document in PROV-N, in pieces."""
        yield "".join(f"{line}\n" for line in prov_n_head(prefixes)).encode()
        yield from _read(self._prov_n)
        yield b"endDocument\n"

    def prov_json(self, prefixes: Mapping[str, str]) -> Iterator[bytes]:
        """The document in PROV-JSON, in pieces."""
        yield f'{{\n "prefix": {json.dumps(prefixes)}'.encode()
        for kind, file in self._kinds.items():
            before = f',\n "{kind}": {{\n'
            for line in _lines(file):
                yield f"{before}  {line.rstrip()}".encode()
                before = ",\n"
            if before == ",\n":
                yield b"\n }"
        yield b"\n}\n"


def _spool() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8", newline="")


def _digests() -> dict[str, Any]:
    return {name: hashlib.new(name, usedforsecurity=False) for name in _DIGESTS}


def _note(sums: Mapping[str, IO[str]], path: str, digests: Mapping[str, str]) -> None:
    # RFC 8493, section 2.1.3: line breaks, and so the escape itself, are escaped.
    name = path.replace("%", "%25").replace("\n", "%0A").replace("\r", "%0D")
    for algorithm, file in sums.items():
        file.write(f"{digests[algorithm]}  {name}\n")


def _lines(file: IO[str]) -> Iterator[str]:
    file.seek(0)
    return iter(file)


def _read(file: IO[str]) -> Iterator[bytes]:
    return (line.encode() for line in _lines(file))
