from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from hashlib import sha256

import pytest

from lading.core.protocols.aws_signature import SigningScope
from lading.core.s3.authorization import UNSIGNED_TRAILER, SignatureClaim
from lading.core.s3.refusals import S3Refusal
from lading.s3.bodies import plan_checks, verified


def claim(payload: str) -> SignatureClaim:
    """A verified signature with this hash of the body."""
    return SignatureClaim(
        key_id="key",
        scope=SigningScope("20260102", "us-east-1"),
        moment=datetime(2026, 1, 2, tzinfo=UTC),
        signed_headers=("host",),
        signature="0" * 64,
        payload=payload,
    )


async def pieces(*data: bytes) -> AsyncIterator[bytes]:
    """A body in pieces."""
    for piece in data:
        yield piece


async def read(headers: Mapping[str, str], payload: str, *data: bytes) -> bytes:
    """The data of a body that is verified."""
    checks = plan_checks(headers, claim(payload), "secret")
    return b"".join([piece async for piece in verified(pieces(*data), checks)])


async def test_a_trailer_with_a_checksum() -> None:
    headers = {"x-amz-decoded-content-length": "2", "x-amz-trailer": "x-amz-checksum-crc32"}
    body = (b"2\r\na", b"b\r\n0\r\nx-amz-checksum-crc32:", b"nlPGjg==\r\n\r\n")
    with pytest.raises(S3Refusal, match="is not that of the body"):
        await read(headers, UNSIGNED_TRAILER, *body)
    body = (b"2\r\na", b"b\r\n0\r\n", b"x-amz-checksum-crc32:noNIbQ==\r\n\r\n")
    with pytest.raises(S3Refusal):
        await read({**headers, "x-amz-decoded-content-length": "3"}, UNSIGNED_TRAILER, *body)
    with pytest.raises(S3Refusal, match="this trailer did not come"):
        await read(headers, UNSIGNED_TRAILER, b"2\r\nab\r\n0\r\n\r\n")


async def test_lengths_and_hashes() -> None:
    digest = sha256(b"ab").hexdigest()
    assert await read({"content-length": "2"}, digest, b"a", b"b") == b"ab"
    with pytest.raises(S3Refusal, match="1 of 2 bytes"):
        await read({"content-length": "2"}, digest, b"a")
    with pytest.raises(S3Refusal, match="longer than its length"):
        await read({"content-length": "2"}, digest, b"abc")
    with pytest.raises(S3Refusal, match="not the one that was signed"):
        await read({}, digest, b"ac")
    with pytest.raises(S3Refusal, match="must be a number"):
        await read({"content-length": "x"}, digest)
    with pytest.raises(S3Refusal, match="is missing"):
        await read({}, UNSIGNED_TRAILER)
