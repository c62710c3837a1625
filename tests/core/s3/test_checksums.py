from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.s3.checksums import FoldedCrc, make_checksum, read_digest
from lading.core.s3.refusals import S3Refusal


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("crc32", "cbf43926"),
        ("crc32c", "e3069283"),
        ("crc64nvme", "ae8b14860a799888"),
        ("sha1", "f7c3bc1d808e04732adf679965ccc34ca7ae3441"),
        ("sha256", "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"),
    ],
)
def test_known_values(name: str, digest: str) -> None:
    checksum = make_checksum(f"x-amz-checksum-{name}")
    checksum.update(b"12345")
    checksum.update(memoryview(b"6789"))
    assert checksum.digest().hex() == digest


def plain(data: bytes, width: int, polynomial: int) -> int:
    """The checksum bit by bit."""
    register = (1 << width) - 1
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (polynomial if register & 1 else 0)
    return register ^ ((1 << width) - 1)


@given(st.lists(st.binary(max_size=700), max_size=4))
def test_folding_is_division(pieces: list[bytes]) -> None:
    for width, polynomial in ((32, 0x82F63B78), (64, 0x9A6C9329AC4BC9B5)):
        checksum = FoldedCrc(width, polynomial)
        for piece in pieces:
            checksum.update(piece)
        wanted = plain(b"".join(pieces), width, polynomial)
        assert int.from_bytes(checksum.digest()) == wanted


@pytest.mark.parametrize("size", [128, 129, 257, 1000, 4096, 5001])
def test_long_pieces(size: int) -> None:
    data = bytes(index * index % 251 for index in range(size))
    for width, polynomial in ((32, 0x82F63B78), (64, 0x9A6C9329AC4BC9B5)):
        checksum = FoldedCrc(width, polynomial)
        checksum.update(b"begin")
        checksum.update(data)
        assert int.from_bytes(checksum.digest()) == plain(b"begin" + data, width, polynomial)


@pytest.mark.parametrize("name", ["x-amz-checksum-crc99", "x-amz-meta-sha1"])
def test_other_checksums(name: str) -> None:
    with pytest.raises(S3Refusal, match="is none of the checksums"):
        make_checksum(name)


@pytest.mark.parametrize("text", ["", "a", "AAAA", "\u00fc"])
def test_malformed_digests(text: str) -> None:
    with pytest.raises(S3Refusal, match="must be 4 bytes in base64"):
        read_digest("x-amz-checksum-crc32", text, 4)
    assert read_digest("x", base64.b64encode(b"abcd").decode(), 4) == b"abcd"
