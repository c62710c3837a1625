r"""Manifests: the text that assigns ranges of blocks to the files of a collection.

Source: docs/spec/api, section Manifests.

    manifest  = *stream
    stream    = name 1*(SP locator) 1*(SP filetoken) LF
    name      = "." | "./" segment *("/" segment)
    filetoken = position ":" length ":" filename

The data of a stream is the concatenation of its blocks; a position is an offset in it. Whitespace,
control characters, backslash and colon are written `\ooo`, three octal digits for each byte of
their UTF-8. An empty directory is a stream with the single file `\056`. An accepted manifest can be
written as files: no element of a path is empty, `.` or `..` or longer than file systems allow, no
path is both file and directory or deeper than `MAX_DEPTH`, and no file reaches beyond its stream.
The number of pieces of blocks that its files consist of is bounded by the length of the text, not
by the product of files and blocks.

Texts of 10 MB are usual, so everything here is a pass of a regular expression or of `split`, never
a loop over characters.

`assemble` joins whole collections in one directory tree without parsing them, for the log of a
request: the last attempt at its top and every attempt in a directory of its own (docs/spec/api,
section Retries and results). Streams are moved by changing their first word. Its texts are
normalised manifests.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import msgspec

from lading.core.errors import Malformed

EMPTY_DIRECTORY = "."
MAX_NAME = 255
"""Bytes of one name (NAME_MAX of Linux)."""
MAX_DEPTH = 256
"""Names in one path; deeper trees exceed limits of programs that handle them recursively."""
MAX_TOTAL = 1 << 62
"""Bytes of all files of a collection; sums stay within 64 bits."""
MAX_BLOCKS = 10**18 - 1
"""Bytes of all blocks of a text: in the normal form they may all be in one stream, whose positions
are numbers of at most 18 digits.
"""
# A file may use data twice, so there can be more pieces than words, but not one for each pair of
# block and file.
_PIECES = 1 << 20
# Four for each word of the text: far more than any writer makes, and still linear in its length.
_PIECES_PER_WORD = 4
# MD5, size and hints; 18 digits fit in 64 bits.
_LOCATOR = re.compile(r"[0-9a-f]{32}\+(0|[1-9][0-9]{0,17})(?:\+[A-Z][A-Za-z0-9@_-]*)*")
# Position, size and name of a file within its stream; the name may have colons.
_FILE = re.compile(r"([0-9]{1,18}):([0-9]{1,18}):(.+)", re.DOTALL)
# Locators inside a text: only they follow a space and are 32 digits and a plus; a file token begins
# with "<digits>:".
_IN_TEXT = re.compile(r"(?<= )[0-9a-f]{32}\+[^ \n]+")
# A locator with hints, of which hash and size are kept.
_HINTED = re.compile(r"(?<= )([0-9a-f]{32}\+[0-9]+)\+[^ \n]+")
# A locator with a signature.
_SIGNED = re.compile(r"(?<= )[0-9a-f]{32}\+[0-9]+[^ \n]*?\+A[^ \n]*")
# The hint of a permission signature; it is no part of a block's identity.
_SIGNATURE = re.compile(r"\+A[^+]*")
# Control characters other than the line feed.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")
# Characters of names that are escaped.
_UNSAFE = re.compile(r"[\x00-\x20:\\]")
# A byte in octal.
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2})")
# A backslash that does not begin an escape.
_STRAY = re.compile(r"\\(?![0-3][0-7]{2})")
# Names that need a closer check.
_SUSPECT = re.compile(r"^\.|[/\0]")
# File tokens whose names need no further check: nothing escaped, no `/`, short, and neither `.` nor
# `..`.
_PLAIN = r"(?!\.{1,2}(?: |\Z))[^ /\\\0]{1,63}"
# A file whose name needs no unescaping: the usual case.
_PLAIN_FILE = re.compile(rf"([0-9]{{1,18}}):([0-9]{{1,18}}):({_PLAIN})")
_PLAIN_FILES = re.compile(
    rf"[0-9]{{1,18}}:[0-9]{{1,18}}:{_PLAIN}(?: [0-9]{{1,18}}:[0-9]{{1,18}}:{_PLAIN})*"
)
# Characters of a token in a message.
_SHOWN = 80
Scanned = tuple[str, list[str], list[tuple[int, int, str]]]
"""One stream: its name, its locators, and position, length and name of each file token."""


class FileToken(msgspec.Struct, frozen=True):
    """A range of a stream that belongs to one file; `name` is unescaped and may contain `/`."""

    position: int
    length: int
    name: str


class ManifestStream(msgspec.Struct, frozen=True):
    """One line: `name` is unescaped, `.` or `./...`; locators keep their hints; a file may have
    several tokens.
    """

    name: str
    locators: tuple[str, ...]
    files: tuple[FileToken, ...]


class Manifest(msgspec.Struct, frozen=True):
    """All streams in the order of the text."""

    streams: tuple[ManifestStream, ...] = ()


def parse(manifest_text: str) -> Manifest:
    """The manifest in a text. Raises Malformed with the line, the fault and the offending token."""
    scanned = list(scan(manifest_text))
    _refuse_clashes(scanned)
    return Manifest(
        tuple(
            ManifestStream(name, tuple(locators), tuple(FileToken(*token) for token in tokens))
            for name, locators, tokens in scanned
        )
    )


def render(manifest: Manifest) -> str:
    """The text of a manifest: `parse(render(m)) == m` for every result of `parse`."""
    return "".join(_line(stream) for stream in manifest.streams)


def portable_data_hash(manifest_text: str) -> str:
    """`<md5>+<size>` of the text with every locator reduced to hash and size."""
    digest = Digest()
    digest.update(manifest_text)
    return str(digest)


class Digest:
    """The portable data hash of a text in pieces, none of which ends within a locator."""

    def __init__(self) -> None:
        self._digest = hashlib.md5(usedforsecurity=False)
        self._size = 0

    def update(self, piece: str) -> None:
        """Add a piece of the text."""
        bare = _HINTED.sub(r"\1", piece).encode()
        self._digest.update(bare)
        self._size += len(bare)

    def __str__(self) -> str:
        return f"{self._digest.hexdigest()}+{self._size}"


def strip_signatures(manifest_text: str) -> str:
    """The text without permission signatures; sizes and other hints stay."""
    return _SIGNED.sub(lambda match: _SIGNATURE.sub("", match[0]), manifest_text)


def sign(manifest_text: str, signer: Callable[[str], str]) -> str:
    """The text with each locator replaced by `signer(locator)`."""
    return _IN_TEXT.sub(lambda match: signer(match[0]), manifest_text)


def locators(manifest_text: str) -> list[str]:
    """All locators of the text in order, with hints and repetitions."""
    return _IN_TEXT.findall(manifest_text)


def counts(manifest_text: str) -> tuple[int, int]:
    """Number of distinct files, and the sum of their sizes in bytes. Raises Malformed as
    `parse`.
    """
    scanned = list(scan(manifest_text))
    paths = _refuse_clashes(scanned)
    return check_total(
        len(paths), sum(length for _, _, tokens in scanned for _, length, _ in tokens)
    )


def check_total(files: int, total: int) -> tuple[int, int]:
    """Return both numbers if a collection can have so many bytes. Raises Malformed."""
    if total > MAX_TOTAL:
        raise Malformed(
            f"manifest: the files have {total} bytes in all; a collection has at most {MAX_TOTAL}"
        )
    return files, total


def escape(name: str) -> str:
    """The name of a stream or file in its escaped form."""
    return _UNSAFE.sub(lambda match: f"\\{ord(match[0]):03o}", name)


def unescape(token: str) -> str:
    """The name in a token. Raises Malformed for a stray backslash or bytes that are not UTF-8."""
    # Most names have no escapes.
    if "\\" not in token:
        return token
    if _STRAY.search(token):
        raise Malformed(
            f"manifest: {_shown(token)}: a backslash must be followed by three octal digits"
        )
    try:
        return _ESCAPE.sub(lambda match: bytes([int(match[1], 8)]), token.encode()).decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"manifest: {_shown(token)}: the name is not UTF-8") from error


def scan(manifest_text: str) -> Iterator[Scanned]:
    """The streams of `manifest_text` in order, as plain values.

    Raises Malformed as `parse`, except for a path that is both file and directory, which only the
    whole text shows.
    """
    _refuse_characters(manifest_text)
    lines = manifest_text.split("\n")
    if lines.pop():
        raise Malformed("manifest: the last line has no line end; the text may be cut off")
    # Bounds the work of cutting files from blocks.
    pieces, room = max(_PIECES, _PIECES_PER_WORD * manifest_text.count(" ")), MAX_BLOCKS
    for number, line in enumerate(lines, 1):
        try:
            stream, size = _scan_line(line)
            room -= size
            if room < 0:
                raise Malformed(
                    f"manifest: the blocks up to here have {MAX_BLOCKS - room} bytes in all; "
                    f"they can have at most {MAX_BLOCKS}"
                )
            pieces -= _count_pieces(stream[1], stream[2], enough=pieces)
        except Malformed as error:
            raise Malformed(
                error.message.replace("manifest:", f"manifest line {number}:", 1)
            ) from error
        yield stream


def size_of(locator: str) -> int:
    """The size in a locator of a manifest."""
    return int(locator.split("+", 2)[1])


def fault_of(path: str) -> str:
    """Fault of a file's path, "" for a valid one; the empty path is invalid."""
    elements = path.split("/")
    if any(element in ("", ".", "..") for element in elements):
        return "'', '.' and '..' are no names of files"
    if "\0" in path:
        return "a name cannot contain a zero byte"
    if len(elements) > MAX_DEPTH:
        return f"a path has at most {MAX_DEPTH} names"
    # A character has at most four bytes of UTF-8: short paths need no encoding.
    if len(path) * 4 > MAX_NAME and max(map(_length, elements)) > MAX_NAME:
        return f"a name has at most {MAX_NAME} bytes"
    return ""


def _scan_line(line: str) -> tuple[Scanned, int]:
    """A stream, and the bytes of its blocks."""
    words = line.split(" ")
    name = unescape(words[0])
    if name != "." and (fault := "no" if name[:2] != "./" else fault_of(name[2:])):
        why = "" if fault == "no" else f" ({fault})"
        raise Malformed(
            f"manifest: {_shown(words[0])} is no stream name; expected '.' or './directory'{why}"
        )
    blocks, size, at = [], 0, 1
    for word in words[1:]:
        match = _LOCATOR.fullmatch(word)
        if match is None:
            break
        blocks.append(word)
        size += int(match[1])
        at += 1
    tokens = _scan_files(line, words, at, size)
    if not blocks or not tokens:
        missing = "block locator" if not blocks else "file"
        raise Malformed(f"manifest: stream {_shown(words[0])} has no {missing}")
    return (name, blocks, tokens), size


def _scan_files(line: str, words: list[str], at: int, size: int) -> list[tuple[int, int, str]]:
    """The file tokens of a line, beginning with the word `at`."""
    rest = line[sum(map(len, words[:at])) + at :]
    # Fast path: one match for the whole line.
    if _PLAIN_FILES.fullmatch(rest):
        tokens = [
            (int(position), int(length), name)
            for position, length, name in _PLAIN_FILE.findall(rest)
        ]
        if max(map(_end, tokens)) <= size:
            return tokens
    # The slow path finds the faulty word and names it.
    depth = words[0].count("/")
    return [_scan_file(word, size, depth) for word in words[at:]]


def _end(token: tuple[int, int, str]) -> int:
    return token[0] + token[1]


def _scan_file(word: str, size: int, depth: int) -> tuple[int, int, str]:
    match = _FILE.fullmatch(word)
    if match is None:
        raise Malformed(
            f"manifest: {_shown(word)} is neither a block locator nor position:length:name"
        )
    position, length, name = int(match[1]), int(match[2]), match[3]
    if "\\" in name:
        name = unescape(name)
    # Most names need no further check.
    if _SUSPECT.search(name) or len(name) * 4 > MAX_NAME:
        _check_name(word, name, length, depth)
    if position + length > size:
        raise Malformed(f"manifest: {_shown(word)} reaches beyond the {size} bytes of its stream")
    return position, length, name


def _check_name(word: str, name: str, length: int, depth: int) -> None:
    if name == EMPTY_DIRECTORY and length == 0:
        return
    fault = fault_of(name)
    if not fault and depth + name.count("/") >= MAX_DEPTH:
        fault = f"a path has at most {MAX_DEPTH} names"
    if fault:
        raise Malformed(f"manifest: {_shown(word)}: {fault}")


def _count_pieces(
    blocks: Sequence[str], tokens: Sequence[tuple[int, int, str]], *, enough: int
) -> int:
    # Pairs of block and file up to which counting them costs more than it saves.
    if len(blocks) * len(tokens) <= _PIECES_PER_WORD * (len(blocks) + len(tokens)):
        return 0
    starts = list(accumulate(map(size_of, blocks), initial=0))
    # Blocks from the one with the first byte to the one with the last.
    count = sum(
        bisect_left(starts, at + length) - bisect_right(starts, at) + 1
        for at, length, _ in tokens
        if length
    )
    if count > enough:
        raise Malformed(
            "manifest: too many files reach over too many blocks; give them streams of their own"
        )
    return count


def _length(name: str) -> int:
    return len(name.encode("utf-8", "surrogatepass"))


def _refuse_characters(manifest_text: str) -> None:
    control = _CONTROL.search(manifest_text)
    if control is not None:
        raise Malformed(
            f"manifest: control character {control[0]!r} must be written \\{ord(control[0]):03o}"
        )
    try:
        manifest_text.encode()
    except UnicodeEncodeError as error:
        raise Malformed("manifest: the text is not UTF-8") from error


# Returns the distinct paths of all files; raises Malformed for a path that is also a directory.
def _refuse_clashes(scanned: list[Scanned]) -> set[str]:
    paths, parents = set(), {"."}
    for name, _, tokens in scanned:
        _add_parents(parents, f"{name}/")
        for _, _, file in tokens:
            if file == EMPTY_DIRECTORY:
                continue
            path = f"{name}/{file}"
            paths.add(path)
            if "/" in file:
                _add_parents(parents, path)
    clashes = paths & parents
    if clashes:
        raise Malformed(f"manifest: {_shown(min(clashes))} is both a file and a directory")
    return paths


# Ends at a known parent, so that deep trees are not walked for each file.
def _add_parents(parents: set[str], path: str) -> None:
    end = path.rfind("/")
    while end > 0 and path[:end] not in parents:
        parents.add(path[:end])
        end = path.rfind("/", 0, end)


def _line(stream: ManifestStream) -> str:
    files = (f"{token.position}:{token.length}:{escape(token.name)}" for token in stream.files)
    return " ".join((escape(stream.name), *stream.locators, *files)) + "\n"


def _shown(word: str) -> str:
    return repr(word if len(word) <= _SHOWN else word[:_SHOWN] + "...")
