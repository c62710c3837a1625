"""The uncompressed content of layers and archives of strangers, which may expand without limit.

A program of the machine does it, in parallel, where the kernel bounds the size of its output
(prlimit(2), of Linux). On other systems Python does it, piece by piece.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import shutil
import signal
import subprocess
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import IO, Final, cast

from lading.client.images.archive_members import CHUNK, Slice
from lading.client.images.steps import UNWATCHED, ImageSteps
from lading.core.errors import Full, Invalid, Malformed
from lading.process import portable

# First bytes of compressed files, and the program that uncompresses them.
_MAGIC: Final = {
    b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd",
}  # fmt: skip
_DECODERS: Final[Mapping[str, Callable[[IO[bytes]], IO[bytes]]]] = MappingProxyType(
    {
        "gzip": lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file, mode="rb")),
        "bzip2": lambda file: cast("IO[bytes]", bz2.BZ2File(file)),
        # The caller closes it.
        "xz": lambda file: cast("IO[bytes]", lzma.LZMAFile(file)),  # noqa: SIM115
    }
)
_DAMAGED: Final = (OSError, EOFError, zlib.error, lzma.LZMAError)


def uncompressed(
    piece: Slice,
    target: Path,
    source: str,
    *,
    steps: ImageSteps = UNWATCHED,
    reserve: int | None = None,
) -> Slice:
    """Uncompress `piece` into the file `target`; return `piece` itself if it is not compressed.

    `reserve` is the number of bytes of the disk that stay free; a tenth of the free ones if None.
    Raises Malformed, Invalid, Full.
    """
    with piece.path.open("rb") as file:
        file.seek(piece.offset)
        head = file.read(8)
        program = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
        if program is None:
            return piece
        file.seek(piece.offset)
        # A tenth of the free space stays for others.
        free = shutil.disk_usage(target.parent).free
        room = max(free - (free // 10 if reserve is None else reserve), 0)
        work = _by_program if portable.CAN_LIMIT_FILES else _by_python
        work(program, steps.reading(file), piece.size, target, source, room, steps)
    return Slice(target, 0, target.stat().st_size)


def _by_program(
    program: str,
    file: IO[bytes],
    size: int,
    target: Path,
    source: str,
    room: int,
    steps: ImageSteps,
) -> None:
    # In a separate process, because it runs in parallel, and zstd is in no supported version of
    # Python.
    try:
        with target.open("wb") as out:
            process = subprocess.Popen(
                [program, "-dc"], stdin=subprocess.PIPE, stdout=out, stderr=subprocess.DEVNULL
            )
        # A small file may expand without limit. The process has no input yet, so the limit applies
        # from the first byte.
        portable.limit_files(process.pid, room)
    except FileNotFoundError:
        raise Invalid(
            f"{source}: compressed with {program}, which this machine lacks; "
            f"run 'apt install {program}'"
        ) from None
    assert process.stdin is not None
    # BrokenPipeError: the program ended early; its exit code is checked below.
    with (
        steps.ending(process, limit=math.inf),
        suppress(BrokenPipeError),
        process.stdin as pipe,
    ):
        while size > 0 and (data := file.read(min(CHUNK, size))):
            pipe.write(data)
            size -= len(data)
    code = process.wait()
    # 128 + signal: the exit code if the program is a shell script.
    if code in (-signal.SIGXFSZ, 128 + signal.SIGXFSZ) or target.stat().st_size >= room:
        raise _too_large(source, target, room)
    if code != 0:
        raise Malformed(f"{source}: damaged: {program} cannot uncompress it")


def _by_python(
    program: str,
    file: IO[bytes],
    size: int,
    target: Path,
    source: str,
    room: int,
    steps: ImageSteps,
) -> None:
    decoder = _DECODERS.get(program)
    if decoder is None:
        raise Invalid(
            f"{source}: compressed with {program}, which only Linux can bound here; "
            "save it with gzip, or add it on Linux"
        )
    compressed = cast("IO[bytes]", io.BufferedReader(_Bounded(file, size), CHUNK))
    written = 0
    with target.open("wb") as out, decoder(compressed) as plain:
        while data := _read(plain, program, source):
            steps.check()
            written += len(data)
            if written > room:
                raise _too_large(source, target, room)
            out.write(data)


def _read(plain: IO[bytes], program: str, source: str) -> bytes:
    try:
        return plain.read(CHUNK)
    except _DAMAGED as error:
        raise Malformed(f"{source}: damaged: {program} cannot uncompress it") from error


def _too_large(source: str, target: Path, room: int) -> Full:
    return Full(
        f"{source}: grows to more than the {room} bytes that are free in {target.parent}; "
        "is it meant to?"
    )


class _Bounded(io.RawIOBase):
    """The next `size` bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        """As `io.BufferedReader` asks."""
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Read into the buffer; the number of bytes, 0 at the end."""
        data = self._file.read(min(len(buffer), self._left))
        buffer[: len(data)] = data
        self._left -= len(data)
        return len(data)
