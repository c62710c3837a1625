"""Bodies in chunks; the example with known signatures is that of the Amazon S3 API Reference."""

from __future__ import annotations

import hashlib

import pytest

from lading.core.protocols.aws_signature import SigningScope, signing_key
from lading.core.s3.chunked_body import ChunkedBody, ChunkSigner
from lading.core.s3.refusals import S3Refusal

SCOPE = SigningScope("20130524", "us-east-1")
SIGNER = ChunkSigner(
    key=signing_key("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", SCOPE),
    stamp="20130524T000000Z",
    scope=SCOPE,
    seed="4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9",
)
SIGNED = b"".join(
    (
        b"10000;chunk-signature=ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
        b"\r\n" + b"a" * 65536 + b"\r\n",
        b"400;chunk-signature=0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
        b"\r\n" + b"a" * 1024 + b"\r\n",
        b"0;chunk-signature=b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
        b"\r\n\r\n",
    )
)


def read(body: ChunkedBody, data: bytes, step: int) -> bytes:
    """The data of a body that comes in pieces of `step` bytes."""
    return b"".join(
        bytes(piece)
        for start in range(0, len(data), step)
        for piece in body.feed(data[start : start + step])
    )


@pytest.mark.parametrize("step", [1, 7, 65536, 1 << 20])
def test_signed_chunks(step: int) -> None:
    body = ChunkedBody(signer=SIGNER, has_trailer=False)
    assert read(body, SIGNED, step) == b"a" * 66560
    assert body.finish() == {}


@pytest.mark.parametrize("position", [100, 65700, len(SIGNED) - 10])
def test_a_changed_byte_is_found(position: int) -> None:
    changed = bytearray(SIGNED)
    changed[position] = ord("b" if changed[position] != ord("b") else "c")
    body = ChunkedBody(signer=SIGNER, has_trailer=False)
    with pytest.raises(S3Refusal) as caught:
        read(body, bytes(changed), 1 << 20)
    assert caught.value.code == "SignatureDoesNotMatch"


def test_signed_trailers() -> None:
    empty = hashlib.sha256().hexdigest()
    last = SIGNER.sign(SIGNER.seed, empty)
    lines = b"x-amz-checksum-crc32:AAAAAA==\n"
    trailer = SIGNER.sign_trailer(last, hashlib.sha256(lines).hexdigest())
    data = (
        f"0;chunk-signature={last}\r\nx-amz-checksum-crc32:AAAAAA==\r\n"
        f"x-amz-trailer-signature:{trailer}\r\n\r\n"
    ).encode()
    body = ChunkedBody(signer=SIGNER, has_trailer=True)
    assert read(body, data, 3) == b""
    assert body.finish() == {"x-amz-checksum-crc32": "AAAAAA=="}
    body = ChunkedBody(signer=SIGNER, has_trailer=True)
    with pytest.raises(S3Refusal, match="does not match"):
        read(body, data.replace(b"AAAAAA", b"AAAAAB"), 1 << 10)


@pytest.mark.parametrize(
    "data",
    [
        b"x\r\n",
        b"2\r\nabc\r\n",
        b"2\nab",
        b"1;" + b"a" * 600,
        b"1" * 600,
        b"0\r\nno trailer\r\n\r\n",
        b"0\r\na:1\r\nA:1\r\n\r\n",
        b"0\r\n" + b"".join(b"a%d:1\r\n" % n for n in range(11)) + b"\r\n",
        b"0\r\n\r\nmore",
    ],
)
def test_malformed_chunks(data: bytes) -> None:
    with pytest.raises(S3Refusal) as caught:
        read(ChunkedBody(signer=None, has_trailer=True), data, 5)
    assert caught.value.code == "IncompleteBody"


def test_chunks_that_must_be_signed_or_have_no_trailer() -> None:
    with pytest.raises(S3Refusal, match="head of a chunk is malformed"):
        read(ChunkedBody(signer=SIGNER, has_trailer=False), b"1\r\na\r\n", 9)
    with pytest.raises(S3Refusal, match="a trailer is malformed"):
        read(ChunkedBody(signer=None, has_trailer=False), b"0\r\na:1\r\n\r\n", 99)


def test_a_body_that_ends_early() -> None:
    body = ChunkedBody(signer=None, has_trailer=False)
    assert read(body, b"2\r\na", 9) == b"a"
    with pytest.raises(S3Refusal, match="ended before its last chunk"):
        body.finish()
