"""Bodies of requests: decoded, and verified by each checksum that came with them.

The length, `Content-MD5`, the SHA-256 of the signature, the signatures of chunks, and checksums in
headers or trailers are verified at the end of a body. A fault raises there, so that nothing was
changed.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import AsyncGenerator, AsyncIterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from lading.core.protocols.aws_signature import UNSIGNED, signing_key
from lading.core.s3.authorization import (
    STREAMED,
    STREAMED_TRAILER,
    UNSIGNED_TRAILER,
    SignatureClaim,
)
from lading.core.s3.checksums import PREFIX, Checksum, make_checksum, read_digest
from lading.core.s3.chunked_body import ChunkedBody, ChunkSigner
from lading.core.s3.refusals import S3Refusal

_CHUNKED: Final = (STREAMED, STREAMED_TRAILER, UNSIGNED_TRAILER)
_NOT_CHECKSUMS: Final = (f"{PREFIX}algorithm", f"{PREFIX}mode", f"{PREFIX}type")
_DIGITS: Final = 15


@dataclass(slots=True, kw_only=True)
class BodyChecks:
    """What a body must match. `claimed` has the checksums of headers, `trailers` the names of those
    that follow the body.
    """

    decoder: ChunkedBody | None = None
    length: int | None = None
    claimed: dict[str, str] = field(default_factory=dict[str, str])
    trailers: tuple[str, ...] = ()
    md5: str = ""
    sha256: str = ""


def plan_checks(
    headers: Mapping[str, str], claim: SignatureClaim | None, secret: str
) -> BodyChecks:
    """The checks of the body of a request. Raises S3Refusal for one that cannot be checked."""
    checks = BodyChecks(md5=headers.get("content-md5", ""))
    if "content-md5" in headers:
        read_md5(checks.md5)
    payload = claim.payload if claim is not None else UNSIGNED
    length_header = "content-length"
    if payload in _CHUNKED and claim is not None:
        length_header = "x-amz-decoded-content-length"
        checks.decoder = _make_decoder(claim, secret)
        checks.trailers = _trailer_names(headers)
        if length_header not in headers:
            raise S3Refusal("MissingContentLength", f"{length_header}: is missing")
    elif payload != UNSIGNED:
        checks.sha256 = payload
    checks.length = _read_length(headers.get(length_header, ""), length_header)
    for name, value in headers.items():
        if name.startswith(PREFIX) and name not in _NOT_CHECKSUMS:
            read_digest(name, value, len(make_checksum(name).digest()))
            checks.claimed[name] = value
    return checks


def read_md5(encoded: str) -> bytes:
    """The bytes of Content-MD5. Raises S3Refusal."""
    return read_digest("content-md5", encoded, 16)


def _make_decoder(claim: SignatureClaim, secret: str) -> ChunkedBody:
    signer = None
    if claim.payload != UNSIGNED_TRAILER:
        signer = ChunkSigner(
            key=signing_key(secret, claim.scope),
            stamp=claim.stamp,
            scope=claim.scope,
            seed=claim.signature,
        )
    return ChunkedBody(signer=signer, has_trailer=claim.payload != STREAMED)


def _trailer_names(headers: Mapping[str, str]) -> tuple[str, ...]:
    names = tuple(
        name.strip().lower() for name in headers.get("x-amz-trailer", "").split(",") if name.strip()
    )
    for name in names:
        make_checksum(name)
    return names


def _read_length(value: str, name: str) -> int | None:
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _DIGITS:
        raise S3Refusal("InvalidArgument", f"{name}: must be a number of bytes")
    return int(value)


class _BodyVerifier:
    """Adds up the data of a body, and compares it with what came with it."""

    def __init__(self, checks: BodyChecks) -> None:
        self._checks = checks
        self._sums: dict[str, Checksum] = {
            name: make_checksum(name) for name in (*checks.claimed, *checks.trailers)
        }
        self._md5 = hashlib.md5(usedforsecurity=False) if checks.md5 else None
        self._sha256 = hashlib.sha256() if checks.sha256 else None
        digests = (*self._sums.values(), self._md5, self._sha256)
        self._digests = [digest for digest in digests if digest is not None]
        self._size = 0

    def add(self, piece: bytes | memoryview) -> None:
        """Add a piece. Raises S3Refusal for a body that is too long."""
        self._size += len(piece)
        if self._checks.length is not None and self._size > self._checks.length:
            raise S3Refusal("IncompleteBody", "the body is longer than its length says")
        for digest in self._digests:
            digest.update(piece)

    def finish(self, trailers: Mapping[str, str]) -> None:
        """Raise S3Refusal unless the whole body is as it says."""
        checks = self._checks
        if checks.length is not None and self._size != checks.length:
            raise S3Refusal(
                "IncompleteBody", f"{self._size} of {checks.length} bytes of the body came"
            )
        sha256, md5 = self._sha256, self._md5
        if sha256 is not None and not hmac.compare_digest(sha256.hexdigest(), checks.sha256):
            raise S3Refusal("XAmzContentSHA256Mismatch", "the body is not the one that was signed")
        if md5 is not None and md5.digest() != read_md5(checks.md5):
            raise S3Refusal("BadDigest", "content-md5: is not that of the body")
        _check_sums(self._sums, {**checks.claimed, **trailers})


async def verified(body: AsyncIterable[bytes], checks: BodyChecks) -> AsyncGenerator[bytes]:
    """The data of a body, in pieces. Raises S3Refusal at its end unless all checks hold."""
    verifier, decoder = _BodyVerifier(checks), checks.decoder
    async for raw in body:
        for piece in (raw,) if decoder is None else decoder.feed(raw):
            verifier.add(piece)
            yield bytes(piece)
    verifier.finish({} if decoder is None else decoder.finish())


def _check_sums(sums: Mapping[str, Checksum], claimed: Mapping[str, str]) -> None:
    for name, checksum in sums.items():
        digest = checksum.digest()
        if name not in claimed:
            raise S3Refusal("IncompleteBody", f"{name}: this trailer did not come")
        if read_digest(name, claimed[name], len(digest)) != digest:
            raise S3Refusal("BadDigest", f"{name}: is not that of the body")


def echo_checksums(headers: Mapping[str, str]) -> dict[str, str]:
    """The checksums of a request's headers, which its answer repeats."""
    return {
        name: value
        for name, value in headers.items()
        if name.startswith(PREFIX) and name not in _NOT_CHECKSUMS
    }
