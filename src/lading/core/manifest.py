"""Manifests: the text that says which bytes of which blocks make the files of a collection (api-contract 6.5, 6.6).

    manifest  = *stream
    stream    = name 1*(SP locator) 1*(SP filetoken) LF
    name      = "." | "./" segment *("/" segment)
    filetoken = position ":" length ":" filename

The data of a stream is its blocks one after another; a position is an offset in that. Whitespace, control characters,
backslash and colon are written `\\ooo`, three octal digits for each byte of their UTF-8. An empty directory is a
stream with the single file `\\056`. A manifest that this module accepts can be laid out as files: no element of a path
is empty, `.` or `..`, no path is both file and directory, and no file reaches beyond its stream.

Texts of 10 MB are usual, so that everything here is a pass of a regular expression or of `split`, none of characters.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from lading.core.errors import Malformed

EMPTY_DIRECTORY = "."
_LOCATOR = re.compile(r"[0-9a-f]{32}\+(\d{1,18})(?:\+[A-Z][A-Za-z0-9@_-]*)*")
_TOKEN_LOCATOR = re.compile(r"(?<= )[0-9a-f]{32}\+\d+(?:\+[A-Z][A-Za-z0-9@_-]*)*(?=[ \n])")
_HINTS = re.compile(r"(?<= )([0-9a-f]{32}\+\d+)(?:\+[A-Z][A-Za-z0-9@_-]*)+(?=[ \n])")
_SIGNED = re.compile(r"(?<= )[0-9a-f]{32}\+\d+(?:\+[A-Z][A-Za-z0-9@_-]*)*\+A[0-9a-f][A-Za-z0-9@_+-]*(?=[ \n])")
_SIGNATURE = re.compile(r"\+A[^+]*")
_FILE = re.compile(r"(\d{1,18}):(\d{1,18}):(.+)", re.DOTALL)
_UNSAFE = re.compile(r"[\x00-\x20\x7f:\\\s]")
_RAW_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f]")
_ESCAPE = re.compile(r"\\([0-3][0-7]{2})")
_STRAY_BACKSLASH = re.compile(r"\\(?![0-3][0-7]{2})")
_BAD_ELEMENT = re.compile(r"(?:^|/)(?:\.\.?)?(?:/|$)")
_SHOWN = 80


@dataclass(frozen=True, slots=True)
class FileToken:
    """Some bytes of a stream that belong to one file; `name` is unescaped and may contain `/`."""

    position: int
    length: int
    name: str


@dataclass(frozen=True, slots=True)
class Stream:
    """One line: `name` is unescaped, `.` or `./...`; locators keep their hints; one file may have several tokens."""

    name: str
    locators: tuple[str, ...]
    files: tuple[FileToken, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """All streams in the order of the text."""

    streams: tuple[Stream, ...] = ()


def parse(text: str) -> Manifest:
    """The manifest that `text` spells. Raises Malformed with the line, the fault and the offending token."""
    raise NotImplementedError


def render(manifest: Manifest) -> str:
    """The text of a manifest: `parse(render(m)) == m`."""
    raise NotImplementedError


def portable_data_hash(text: str) -> str:
    """`<md5>+<size>` of the text with every locator reduced to hash and size."""
    raise NotImplementedError


def strip_signatures(text: str) -> str:
    """The text without permission signatures; sizes and other hints stay."""
    raise NotImplementedError


def sign(text: str, signer: Callable[[str], str]) -> str:
    """The text with each locator replaced by `signer(locator)`."""
    raise NotImplementedError


def locators(text: str) -> list[str]:
    """Every locator of the text in order, hints included, repeated when it stands there twice."""
    raise NotImplementedError


def counts(text: str) -> tuple[int, int]:
    """Number of distinct files, and the sum of their sizes in bytes. Raises Malformed as `parse`."""
    raise NotImplementedError


def escape(name: str) -> str:
    """The name of a stream or file as a manifest writes it."""
    raise NotImplementedError


def unescape(text: str) -> str:
    """The name that a manifest's token stands for. Raises Malformed for a stray backslash or bytes not UTF-8."""
    raise NotImplementedError
