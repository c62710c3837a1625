"""Programs of this machine: their format, and the shared libraries that they need.

- Libraries are listed by the program's own loader; the program is never run. First the loader runs
  without its cache: libraries that it finds then are also found in an image, which has no cache.
  Directories that only the cache or LD_LIBRARY_PATH names are reported.
"""

from __future__ import annotations

import posixpath
import re
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_MAGIC = b"\x7fELF"
# Types of program header (elf(5)).
_PT_DYNAMIC, _PT_INTERP = 2, 3
# Lines of `ld.so --list`: "libm.so.6 => /lib/libm.so.6 (0x...)" or "libx.so => not found".
_FOUND = re.compile(r"^\s+(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
# A line of ldd(1) for a library that the machine does not have.
_MISSING = re.compile(r"^\s+(\S+) => not found", re.MULTILINE)
# Seconds for one run of a loader; after that the file counts as without libraries.
_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Binary:
    """Fields of an ELF header. `loader` is "" for a shared library or a static program."""

    loader: str
    dynamic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Linkage:
    """Result of resolving the libraries of one file: paths found, names missing, further
    directories to search.
    """

    libraries: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()


def read_binary(path: Path) -> Binary | None:
    """The header of the ELF file `path`; None if it is not an ELF file or cannot be read."""
    try:
        with path.open("rb") as file:
            return _parse_linkage(file)
    except (OSError, struct.error, IndexError):
        return None


def list_libraries(loader: str, path: Path, *, environ: Mapping[str, str]) -> Linkage:
    """The libraries that `loader` finds for the file `path`."""
    clean = {name: value for name, value in environ.items() if not name.startswith("LD_")}
    # musl's loader has no cache and no such option.
    strict = ["--inhibit-cache", "--list"] if "musl" not in loader else ["--list"]
    first = _list(loader, strict, path, clean)
    if not first.missing:
        return first
    second = _list(loader, ["--list"], path, dict(environ))
    extra = sorted(
        {posixpath.dirname(name) for name in second.libraries if name not in first.libraries}
    )
    return Linkage(libraries=second.libraries, missing=second.missing, directories=tuple(extra))


def _list(loader: str, options: list[str], path: Path, environ: dict[str, str]) -> Linkage:
    try:
        done = subprocess.run(
            [loader, *options, str(path)],
            capture_output=True,
            text=True,
            env=environ,
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return Linkage()
    return Linkage(
        libraries=tuple(_FOUND.findall(done.stdout)), missing=tuple(_MISSING.findall(done.stdout))
    )


def _parse_linkage(file: IO[bytes]) -> Binary | None:
    # The header of a 64-bit file has 64 bytes, that of a 32-bit file 52.
    head = file.read(64)
    if head[:4] != _MAGIC:
        return None
    # EI_CLASS and EI_DATA: 64 bit, little endian (elf(5)).
    wide, order = head[4] == 2, "<" if head[5] == 1 else ">"
    if wide:
        # e_phoff, e_phentsize, e_phnum.
        offset, entry_size, count = struct.unpack_from(order + "Q14xHH", head, 32)
    else:
        offset, entry_size, count = struct.unpack_from(order + "I10xHH", head, 28)
    file.seek(offset)
    table, loader, dynamic = file.read(entry_size * count), "", False
    # `or 1`: a damaged header may give entries of 0 bytes.
    for at in range(0, entry_size * count, entry_size or 1):
        kind = struct.unpack_from(order + "I", table, at)[0]
        dynamic = dynamic or kind == _PT_DYNAMIC
        if kind == _PT_INTERP:
            # p_offset and p_filesz.
            where, length = (
                struct.unpack_from(order + "8xQ16xQ", table, at)
                if wide
                else struct.unpack_from(order + "I8xI", table, at + 4)
            )
            file.seek(where)
            loader = file.read(min(length, 4096)).rstrip(b"\0").decode()
    return Binary(loader=loader, dynamic=dynamic)
