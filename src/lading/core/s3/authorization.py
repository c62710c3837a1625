"""Who signed a request, and with what: Signature Version 4 in a header or in a query.

`read_claim` reads what the client says; `check_time` and `expected_signature` verify it. Signature
Version 2 is refused. Every header whose name begins with `x-amz-` must be signed, so that nobody
adds one to a request of another. Source: docs/spec/s3, section Signatures.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from lading.core.protocols.aws_signature import (
    ALGORITHM,
    UNSIGNED,
    SigningScope,
    canonical_request,
    parse_signing_scope,
    signature,
    signing_key,
    string_to_sign,
)
from lading.core.s3.refusals import S3Refusal
from lading.core.tes.locations import decode, encode

SKEW: Final = timedelta(minutes=15)
"""Most difference between the time of a request and that of the server."""
LONGEST_VALIDITY: Final = 7 * 86_400
"""Seconds for which a presigned address is valid, at most."""
PAYLOAD_HEADER: Final = "x-amz-content-sha256"
STREAMED: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAMED_TRAILER: Final = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
UNSIGNED_TRAILER: Final = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
_WORDS: Final = (UNSIGNED, STREAMED, STREAMED_TRAILER, UNSIGNED_TRAILER)
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_SIGNATURE: Final = re.compile(r"[0-9a-f]{64}")
_MOMENT: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_PATH_BYTES: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
)
# Any region will do, if it can be signed: printable, and without the slash between the fields.
_REGION: Final = re.compile(r"[!-.0-~]{0,100}")
_FIELDS: Final = ("Credential", "SignedHeaders", "Signature")
_QUERY: Final = ("X-Amz-Credential", "X-Amz-SignedHeaders", "X-Amz-Signature", "X-Amz-Date")
# Signed headers of a request; more are no client's.
_MOST_SIGNED: Final = 100
_OLD_VERSION: Final = (
    "Signature Version 2 is not taken; have the client sign with AWS4-HMAC-SHA256 (s3v4)"
)
Query = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class SignatureClaim:
    """The signature of a request, not verified. `payload` is the SHA-256 of the body, or the word
    that says how it is sent; `seconds` is the validity of a presigned address, None for a header.
    """

    key_id: str
    scope: SigningScope
    moment: datetime
    signed_headers: tuple[str, ...]
    signature: str
    payload: str
    seconds: int | None = None

    @property
    def is_presigned(self) -> bool:
        """Whether the signature is in the address."""
        return self.seconds is not None

    @property
    def stamp(self) -> str:
        """The time of the signature as it is signed."""
        return f"{self.moment:%Y%m%dT%H%M%SZ}"


def read_query(raw: str) -> list[tuple[str, str]]:
    """The parameters of a raw query; a plus sign is a space."""
    return [
        (decode(name.replace("+", " ")), decode(value.replace("+", " ")))
        for name, _, value in (pair.partition("=") for pair in raw.split("&") if pair)
    ]


def read_claim(headers: Mapping[str, str], query: Query) -> SignatureClaim | None:
    """The signature that a request carries; None for a request without one. Names of headers are in
    lower case. Raises S3Refusal.
    """
    parameters = dict(query)
    header = headers.get("authorization", "")
    if "Signature" in parameters and "AWSAccessKeyId" in parameters:
        raise S3Refusal("InvalidRequest", _OLD_VERSION)
    in_query = "X-Amz-Algorithm" in parameters or "X-Amz-Signature" in parameters
    if header and in_query:
        raise S3Refusal("InvalidArgument", "sign the address or the header, not both")
    if in_query:
        claim = _read_address(parameters)
    elif header:
        claim = _read_header(header, headers)
    else:
        return None
    _check_signed_names(claim, headers)
    return claim


def _read_header(header: str, headers: Mapping[str, str]) -> SignatureClaim:
    algorithm, _, fields_text = header.partition(" ")
    if algorithm == "AWS":
        raise S3Refusal("InvalidRequest", _OLD_VERSION)
    if algorithm != ALGORITHM:
        raise S3Refusal("InvalidRequest", f"Authorization: sign requests with {ALGORITHM}")
    fields = dict(field.strip().partition("=")[::2] for field in fields_text.split(","))
    if not all(fields.get(name) for name in _FIELDS):
        raise _malformed_header(f"needs {', '.join(_FIELDS)}")
    payload = headers.get(PAYLOAD_HEADER, "")
    if payload not in _WORDS and _HASH.fullmatch(payload) is None:
        if payload.startswith("STREAMING-"):
            raise S3Refusal("NotImplemented", f"{PAYLOAD_HEADER}: {payload[:60]!r} is not offered")
        raise S3Refusal(
            "InvalidRequest", f"{PAYLOAD_HEADER}: must be the SHA-256 of the body, or {UNSIGNED}"
        )
    key_id, scope = _read_credential(fields["Credential"], _malformed_header)
    moment = _read_moment(headers.get("x-amz-date", ""))
    if moment is None:
        raise S3Refusal("AccessDenied", "x-amz-date: must be a time such as 20260102T030405Z")
    claim = SignatureClaim(
        key_id=key_id,
        scope=scope,
        moment=moment,
        signed_headers=tuple(fields["SignedHeaders"].split(";")),
        signature=fields["Signature"],
        payload=payload,
    )
    if claim.stamp[:8] != scope.day:
        raise _malformed_header("the day of the credential is not that of x-amz-date")
    return claim


def _read_address(parameters: Mapping[str, str]) -> SignatureClaim:
    if parameters.get("X-Amz-Algorithm") != ALGORITHM:
        raise _malformed_query(f"X-Amz-Algorithm: must be {ALGORITHM}")
    missing = [name for name in _QUERY if not parameters.get(name)]
    if missing:
        raise _malformed_query(f"{missing[0]}: is missing")
    seconds = parameters.get("X-Amz-Expires", "")
    if not seconds.isascii() or not seconds.isdigit() or not 0 < len(seconds) < 9:
        raise _malformed_query("X-Amz-Expires: must be a number of seconds")
    if not 0 < int(seconds) <= LONGEST_VALIDITY:
        raise _malformed_query(f"X-Amz-Expires: must be 1 to {LONGEST_VALIDITY} seconds")
    key_id, scope = _read_credential(parameters["X-Amz-Credential"], _malformed_query)
    moment = _read_moment(parameters["X-Amz-Date"])
    if moment is None:
        raise _malformed_query("X-Amz-Date: must be a time such as 20260102T030405Z")
    claim = SignatureClaim(
        key_id=key_id,
        scope=scope,
        moment=moment,
        signed_headers=tuple(parameters["X-Amz-SignedHeaders"].split(";")),
        signature=parameters["X-Amz-Signature"],
        payload=UNSIGNED,
        seconds=int(seconds),
    )
    if claim.stamp[:8] != scope.day:
        raise _malformed_query("the day of X-Amz-Credential is not that of X-Amz-Date")
    return claim


def _read_credential(
    credential: str, refuse: Callable[[str], S3Refusal]
) -> tuple[str, SigningScope]:
    *key_parts, day, region, service, terminator = ["", "", "", "", *credential.split("/")]
    scope = parse_signing_scope((day, region, service, terminator))
    key_id = "/".join(key_parts).lstrip("/")
    if scope is None or not key_id or _REGION.fullmatch(scope.region) is None:
        raise refuse("Credential: must be KEY/DAY/REGION/s3/aws4_request")
    return key_id, scope


def _read_moment(stamp: str) -> datetime | None:
    if _MOMENT.fullmatch(stamp) is None:
        return None
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None


def _check_signed_names(claim: SignatureClaim, headers: Mapping[str, str]) -> None:
    names = claim.signed_headers
    if len(names) > _MOST_SIGNED:
        raise S3Refusal("InvalidRequest", f"SignedHeaders: has more than {_MOST_SIGNED} names")
    if "host" not in names:
        raise S3Refusal("AccessDenied", "SignedHeaders: must name host")
    unsigned = sorted(name for name in headers if name.startswith("x-amz-") and name not in names)
    # The hash of the body is a part of the request that is signed in any case.
    unsigned = [name for name in unsigned if name != PAYLOAD_HEADER or claim.is_presigned]
    if unsigned:
        raise S3Refusal("AccessDenied", f"{unsigned[0][:60]}: this header was not signed")
    if _SIGNATURE.fullmatch(claim.signature) is None:
        raise mismatch()


def check_time(claim: SignatureClaim, now: datetime) -> None:
    """Raise S3Refusal for a request of another time than now, or an address that has expired."""
    if claim.seconds is None:
        if abs(now - claim.moment) > SKEW:
            raise S3Refusal(
                "RequestTimeTooSkewed",
                "the time of the request differs from that of the server by more than"
                f" {SKEW.seconds // 60} minutes; set the clock",
            )
        return
    if claim.moment - now > SKEW:
        raise S3Refusal("AccessDenied", "the address is not valid yet")
    if now > claim.moment + timedelta(seconds=claim.seconds):
        raise S3Refusal("AccessDenied", "Request has expired")


def expected_signature(
    claim: SignatureClaim,
    secret: str,
    *,
    method: str,
    raw_path: str,
    query: Query,
    headers: Mapping[str, str],
) -> str:
    """The signature that the holder of `secret` computes for a request."""
    pairs = sorted(
        (encode(name), encode(value)) for name, value in query if name != "X-Amz-Signature"
    )
    names = sorted(set(claim.signed_headers))
    canonical = canonical_request(
        method,
        encode(decode(raw_path), _PATH_BYTES) or "/",
        "&".join(f"{name}={value}" for name, value in pairs),
        [(name, headers.get(name, "")) for name in names],
        claim.payload,
    )
    message = string_to_sign(canonical, moment=claim.stamp, scope=claim.scope)
    return signature(signing_key(secret, claim.scope), message)


def check_signature(claim: SignatureClaim, expected: str) -> None:
    """Raise S3Refusal unless the signature is the expected one; in constant time."""
    if not hmac.compare_digest(claim.signature, expected):
        raise mismatch()


def mismatch() -> S3Refusal:
    """The refusal of a signature that does not match, which tells nothing about the key."""
    return S3Refusal(
        "SignatureDoesNotMatch",
        "the signature does not match the request; check the secret key, and that no proxy changes"
        " the path or the host",
    )


def _malformed_header(fault: str) -> S3Refusal:
    return S3Refusal("AuthorizationHeaderMalformed", f"Authorization: {fault}")


def _malformed_query(fault: str) -> S3Refusal:
    return S3Refusal("AuthorizationQueryParametersError", fault)


def token_in_key(key_id: str) -> str:
    """The token that an access key is made of, as Arvados has it: `v2_UUID_SECRET`; "" for the uuid
    of a token.
    """
    return key_id.replace("_", "/") if key_id.startswith("v2_") else ""
