"""Programs of one system call each, as x86-64 machine code: images need neither a compiler nor an
interpreter.

The exit code of a program is the error number of its call, 0 when the call was carried out.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

_BASE = 0x400000
_HEADERS = 64 + 56
_NATIVE = (b"\x48\xbf", b"\x48\xbe", b"\x48\xba", b"\x49\xba", b"\x49\xb8", b"\x49\xb9")
"""Load 64 bits into rdi, rsi, rdx, r10, r8, r9."""
_COMPATIBLE = (b"\xbb", b"\xb9", b"\xba", b"\xbe", b"\xbf", b"\xbd")
"""Load 32 bits into ebx, ecx, edx, esi, edi, ebp."""
_EXIT = bytes.fromhex("4885c0 7904 f7d8 eb02 31c0 89c7 b83c000000 0f05")
"""`_exit(-rax)` when rax is below 0, else `_exit(0)`."""


def make_program(number: int, *arguments: int | bytes, interrupt: bool = False) -> bytes:
    """An ELF file that makes one call; bytes as an argument are passed by address.

    `interrupt`: by the 32-bit entry, int 0x80, with the numbers of 32-bit Linux.
    """
    size = len(_code(number, arguments, [0] * len(arguments), interrupt=interrupt))
    places, data = [], b""
    for one in arguments:
        places.append(_BASE + _HEADERS + size + len(data))
        data += one if isinstance(one, bytes) else b""
    content = _code(number, arguments, places, interrupt=interrupt) + data
    length, entry = _HEADERS + len(content), _BASE + _HEADERS
    identity = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<16sHHIQQQIHHHHHH", identity, 2, 62, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return head + struct.pack("<IIQQQQQQ", 1, 7, 0, _BASE, _BASE, length, length, 4096) + content


def _code(
    number: int, arguments: Sequence[int | bytes], places: Sequence[int], *, interrupt: bool
) -> bytes:
    values = [
        place if isinstance(one, bytes) else one
        for one, place in zip(arguments, places, strict=True)
    ]
    loads = zip(_COMPATIBLE if interrupt else _NATIVE, values, strict=False)
    if interrupt:
        code = b"".join(load + struct.pack("<I", value) for load, value in loads)
        return code + b"\xb8" + struct.pack("<I", number) + b"\xcd\x80" + _EXIT
    code = b"".join(load + struct.pack("<Q", value) for load, value in loads)
    return code + b"\x48\xb8" + struct.pack("<Q", number) + b"\x0f\x05" + _EXIT
