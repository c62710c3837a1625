"""The journal of an upload: the blocks hashed and sent already, so that it can be resumed.

The journal (`UploadJournal`) has one file for each set of sources, with one JSON document per line,
appended during the upload:

    {"key": ..., "block": "<hash>+<size>"}    these bytes of these unchanged files have this hash
    {"locator": "<signed locator>"}           the store has acknowledged this block
    {"collection": "<uuid>"}                  the collection of the last complete upload

A line that was cut off by a kill is ignored. If the file is lost, blocks are hashed and sent again;
an upload that cannot write it continues without it. Locators are signed for one token, so only the
owner may read the file.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import (
    Iterable,
)
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from lading.process.portable import AS_BYTES, NO_INHERIT, lock_file

_PLAIN = NO_INHERIT | AS_BYTES
# A journal that was not written for so long is deleted.
_KEPT_DAYS = 60
_DAY = 86400.0
# An empty file, written when the directory was last searched for such journals.
_LOOKED = "searched"


class _Line(msgspec.Struct, omit_defaults=True):
    key: str = ""
    block: str = ""
    locator: str = ""
    collection: str = ""


class UploadJournal:
    """The journal of one upload, a context manager; without a path, or if another upload has the
    file open, nothing is stored.

    `blocks`: hash and size by key; `locators`: signed locators by hash and size; `collection`: a
    uuid or "" if there is none.
    """

    def __init__(self, path: Path | None = None) -> None:
        self.blocks: dict[str, str] = {}
        self.locators: dict[str, str] = {}
        self.collection = ""
        self._path = path
        self._file: BinaryIO | None = None

    def __enter__(self) -> Self:
        if self._path is not None:
            with suppress(OSError):
                self._open(self._path)
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def note_block(self, key: str, block: str) -> None:
        """Store the hash of the bytes that `key` names."""
        self.blocks[key] = block
        self._append(_Line(key=key, block=block))

    def note_locator(self, locator: str) -> None:
        """Store a locator that the store has acknowledged."""
        self.locators["+".join(locator.split("+", 2)[:2])] = locator
        self._append(_Line(locator=locator))

    def note_collection(self, uuid: str, keys: Iterable[str]) -> None:
        """Store the uuid of the collection, and delete all other keys: the next upload starts from
        here.
        """
        self.collection = uuid
        self.blocks = {key: self.blocks[key] for key in keys if key in self.blocks}
        used = set(self.blocks.values())
        self.locators = {
            block: locator for block, locator in self.locators.items() if block in used
        }
        if self._file is None or self._path is None:
            return
        lines = [_Line(collection=uuid)]
        lines += [_Line(key=key, block=block) for key, block in self.blocks.items()]
        lines += [_Line(locator=locator) for locator in self.locators.values()]
        with suppress(OSError):
            _replace(self._path, b"".join(map(_encoded, lines)))

    def _append(self, line: _Line) -> None:
        if self._file is None:
            return
        try:
            self._file.write(_encoded(line))
        # The disk is full, for example: the upload continues without a journal.
        except OSError:
            self._file.close()
            self._file = None

    def _open(self, path: Path) -> None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _forget_old(path.parent)
        descriptor = os.open(
            path, os.O_RDWR | os.O_CREAT | os.O_APPEND | NO_INHERIT | AS_BYTES, 0o600
        )
        file = os.fdopen(descriptor, "r+b", buffering=0)
        try:
            # Another upload of the same sources has it: this one continues without a journal.
            lock_file(file.fileno())
            content = path.read_bytes()
        except OSError:
            file.close()
            raise
        self._file = file
        for line in content.split(b"\n"):
            with suppress(msgspec.DecodeError):
                self._learn(msgspec.json.decode(line, type=_Line))
        # A kill cut off the last line; the next one must not be appended to it.
        if content and not content.endswith(b"\n"):
            file.write(b"\n")

    def _learn(self, line: _Line) -> None:
        if line.key:
            self.blocks[line.key] = line.block
        if line.locator:
            self.locators["+".join(line.locator.split("+", 2)[:2])] = line.locator
        if line.collection:
            self.collection = line.collection


def journal_path(directory: Path, *values: str) -> Path:
    """The journal file below the cache directory for these values: the server, the token, the
    sources.
    """
    name = hashlib.sha256(b"\0".join(os.fsencode(value) for value in values)).hexdigest()[:32]
    return directory / "uploads" / f"{name}.jsonl"


def _encoded(line: _Line) -> bytes:
    return msgspec.json.encode(line) + b"\n"


def _replace(path: Path, content: bytes) -> None:
    aside = path.with_suffix(".part")
    descriptor = os.open(
        aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NO_INHERIT | AS_BYTES, 0o600
    )
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    aside.replace(path)


def _forget_old(directory: Path) -> None:
    """Delete journals that are not used any more, once a day: a pipeline makes many uploads, and
    the cache of a user has thousands of journals.
    """
    marker, now = directory / _LOOKED, time.time()
    with suppress(OSError):
        if now - marker.stat().st_mtime < _DAY:
            return
    with suppress(OSError):
        marker.touch(mode=0o600)
    limit = now - _KEPT_DAYS * _DAY
    for path in directory.glob("*.jsonl"):
        with suppress(OSError):
            if path.stat().st_mtime < limit:
                path.unlink()
