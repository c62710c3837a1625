"""The cache of the dynamic loader (`/etc/ld.so.cache`): names of libraries, and where they are.

The format is that of glibc since 2.2 ("glibc-ld.so.cache1.1"; elf/cache.c of glibc): a header of 48
bytes, an entry of 24 bytes for each name, and the texts at their offsets from the header. An older
table can stand before it. A file of another form has no names.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

MOST_BYTES: Final = 16 << 20
"""Bytes of a file."""
_MAGIC: Final = b"glibc-ld.so.cache1.1"
_HEADER: Final = struct.Struct("<20sII20x")
_ENTRY: Final = struct.Struct("<iIIIQ")
_MOST_NAMES: Final = 100_000
_LONGEST: Final = 4096
# What glibc writes for libraries of 64 bits: x86-64, IA-64, AArch64, and the others' common flag.
_WIDE: Final = frozenset({0x0300, 0x0200, 0x0A00, 0x0500, 0x0400, 0x0700, 0x1000, 0x0800})
_KIND: Final = 0xFF00


def read_libraries(cache: bytes) -> Iterator[tuple[str, str]]:
    """Names and paths of the libraries of 64 bits, in the order of the cache, which finds the first
    one of a name.
    """
    start = cache.find(_MAGIC)
    if start < 0 or len(cache) - start < _HEADER.size:
        return
    _, count, _ = _HEADER.unpack_from(cache, start)
    end = start + _HEADER.size + min(count, _MOST_NAMES) * _ENTRY.size
    if end > len(cache):
        return
    for at in range(start + _HEADER.size, end, _ENTRY.size):
        flags, name, path, _, _ = _ENTRY.unpack_from(cache, at)
        if flags & _KIND in _WIDE:
            texts = _text(cache, start + name), _text(cache, start + path)
            if all(texts) and texts[1].startswith("/"):
                yield texts


def _text(cache: bytes, at: int) -> str:
    """The text that ends with NUL; "" for none."""
    end = cache.find(b"\0", at, at + _LONGEST)
    return cache[at:end].decode("utf-8", "replace") if end > at else ""
