"""Checksums that clients of S3 send with objects.

CRC32 and the SHA families are those of the standard library. CRC32C and CRC64NVME are computed by
carry-less products of large integers: a message of n bits is folded to half its length by `H(x)*x^m
+ L(x) = H(x)*(x^m mod P) + L(x)`, so that Python works on thousands of bytes at once. Bits are
reflected: bit i of an integer is the coefficient of x^(n-1-i).

Source: Amazon S3 User Guide, Checking object integrity; R. N. Williams, A painless guide to CRC
error detection algorithms.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, Protocol

from lading.core.s3.refusals import S3Refusal

PREFIX: Final = "x-amz-checksum-"
"""Beginning of the names of headers and trailers with checksums."""
# Bits below which a message is not folded further.
_SHORT: Final = 1024


class Checksum(Protocol):
    """A checksum that is computed piece by piece."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add a piece."""

    def digest(self) -> bytes:
        """The checksum of all pieces, most significant byte first."""


class _Crc32:
    def __init__(self) -> None:
        self._value = 0

    def update(self, data: bytes | memoryview, /) -> None:
        self._value = zlib.crc32(data, self._value)

    def digest(self) -> bytes:
        return self._value.to_bytes(4)


class FoldedCrc:
    """A reflected CRC of `width` bits with the reflected polynomial `polynomial`; its register
    begins and ends inverted.
    """

    def __init__(self, width: int, polynomial: int) -> None:
        self._width, self._polynomial = width, polynomial
        self._register = (1 << width) - 1

    def update(self, data: bytes | memoryview, /) -> None:
        """Add a piece."""
        bits, width = len(data) * 8, self._width
        if bits < width:
            self._register = _crc_bytes(self._register, bytes(data), self._polynomial)
            return
        # The register is the beginning of a message whose first bits it changes.
        message = int.from_bytes(data, "little") ^ self._register
        while bits > _SHORT:
            # The largest power of two below the length: its remainder is computed once.
            exponent = (bits - 1).bit_length() - 1
            low = 1 << exponent
            high = bits - low
            product = _multiply(
                message & ((1 << high) - 1), _remainder(exponent, width, self._polynomial)
            )
            message >>= high
            length = high + width - 1
            bits = max(low, length)
            # Equal powers of x are at equal distances from the end.
            message = (message << (bits - low)) ^ (product << (bits - length))
        spare = -bits % 8
        folded = (message << spare).to_bytes((bits + spare) // 8, "little")
        self._register = _crc_bytes(0, folded, self._polynomial)

    def digest(self) -> bytes:
        """The checksum of all pieces."""
        return (self._register ^ ((1 << self._width) - 1)).to_bytes(self._width // 8)


def _crc_bytes(register: int, data: bytes, polynomial: int) -> int:
    table = _table(polynomial)
    for byte in data:
        register = table[(register ^ byte) & 0xFF] ^ (register >> 8)
    return register


@lru_cache(4)
def _table(polynomial: int) -> tuple[int, ...]:
    entries = []
    for byte in range(256):
        register = byte
        for _ in range(8):
            register = (register >> 1) ^ (polynomial if register & 1 else 0)
        entries.append(register)
    return tuple(entries)


def _multiply(large: int, small: int) -> int:
    """The carry-less product, by four bits of `small` at a time."""
    multiples = [0, large]
    for index in range(2, 16):
        half = multiples[index >> 1] << 1
        multiples.append(half ^ large if index & 1 else half)
    product, shift = 0, 0
    while small:
        product ^= multiples[small & 15] << shift
        small, shift = small >> 4, shift + 4
    return product


@lru_cache(128)
def _remainder(exponent: int, width: int, polynomial: int) -> int:
    """`x^(2^exponent) mod P`, reflected."""
    # Not reflected here: bit i is the coefficient of x^i.
    modulus = (1 << width) | _reflect(polynomial, width)
    value = 2
    for _ in range(exponent):
        value = _multiply(value, value)
        while value.bit_length() > width:
            value ^= modulus << (value.bit_length() - width - 1)
    return _reflect(value, width)


def _reflect(value: int, width: int) -> int:
    return int(f"{value:0{width}b}"[::-1], 2)


CHECKSUMS: Final[Mapping[str, Callable[[], Checksum]]] = {
    "crc32": _Crc32,
    "crc32c": lambda: FoldedCrc(32, 0x82F63B78),
    "crc64nvme": lambda: FoldedCrc(64, 0x9A6C9329AC4BC9B5),
    "sha1": lambda: hashlib.sha1(usedforsecurity=False),
    "sha256": hashlib.sha256,
}
"""A new checksum by its name in headers."""


def make_checksum(header: str) -> Checksum:
    """A new checksum for a header or trailer. Raises S3Refusal for one that is not offered."""
    name = header.removeprefix(PREFIX)
    maker = CHECKSUMS.get(name) if header.startswith(PREFIX) else None
    if maker is None:
        offered = ", ".join(sorted(CHECKSUMS))
        raise S3Refusal("InvalidRequest", f"{header[:60]}: is none of the checksums {offered}")
    return maker()


def read_digest(header: str, encoded: str, size: int) -> bytes:
    """The bytes of a checksum in base64. Raises S3Refusal."""
    try:
        digest = base64.b64decode(encoded, validate=True)
    except ValueError:
        digest = b""
    if len(digest) != size:
        raise S3Refusal("InvalidDigest", f"{header[:60]}: must be {size} bytes in base64")
    return digest
