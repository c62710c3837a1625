"""AWS Signature Version 4: the canonical request, the signing key, the signature.

Clients sign with it, and the server of S3 verifies by computing the same. Source: AWS General
Reference, Signature Version 4.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ALGORITHM: Final = "AWS4-HMAC-SHA256"
UNSIGNED: Final = "UNSIGNED-PAYLOAD"
"""Stands for the hash of a body that is not part of the signature."""
EMPTY_HASH: Final = hashlib.sha256(b"").hexdigest()
_SERVICE: Final = "s3"
_TERMINATOR: Final = "aws4_request"


@dataclass(frozen=True, slots=True)
class SigningScope:
    """The day, such as 20260102, and the region for which a signing key is valid."""

    day: str
    region: str

    def __str__(self) -> str:
        return f"{self.day}/{self.region}/{_SERVICE}/{_TERMINATOR}"


def parse_signing_scope(fields: Iterable[str]) -> SigningScope | None:
    """The scope of the fields day, region, service, terminator; None for a scope of another
    service.
    """
    match list(fields):
        case [day, region, service, terminator] if (service, terminator) == (
            _SERVICE,
            _TERMINATOR,
        ):
            return SigningScope(day, region)
    return None


def canonical_request(
    method: str, path: str, query: str, headers: Iterable[tuple[str, str]], payload: str
) -> str:
    """The text whose hash is signed.

    `path` and `query` are percent-encoded, the query in order; `headers` are all signed headers in
    order, with names in lower case. `payload` is the SHA-256 of the body in hexadecimal digits, or
    a word that stands for it.
    """
    pairs = tuple(headers)
    lines = (f"{name}:{' '.join(value.split())}" for name, value in pairs)
    return "\n".join((method, path, query, *lines, "", signed_names(pairs), payload))


def signed_names(headers: Iterable[tuple[str, str]]) -> str:
    """The names of the signed headers, with semicolons between them."""
    return ";".join(name for name, _ in headers)


def string_to_sign(canonical: str, *, moment: str, scope: SigningScope) -> str:
    """The string to sign of a canonical request. `moment` is a time such as 20260102T030405Z."""
    digest = hashlib.sha256(canonical.encode("utf-8", "surrogateescape")).hexdigest()
    return f"{ALGORITHM}\n{moment}\n{scope}\n{digest}"


def signing_key(secret: str, scope: SigningScope) -> bytes:
    """The key that signs requests of one day in one region."""
    key = f"AWS4{secret}".encode()
    for component in (scope.day, scope.region, _SERVICE, _TERMINATOR):
        key = hmac.digest(key, component.encode(), "sha256")
    return key


def signature(key: bytes, message: str) -> str:
    """The signature of a string, in hexadecimal digits."""
    return hmac.digest(key, message.encode(), "sha256").hex()
