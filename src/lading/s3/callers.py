"""Callers: the token whose holder has signed a request.

An access key is the uuid of a token that was made as a key of S3, whose secret the server has
sealed; or a whole token, with `_` for `/`, as Arvados has it. The latter would give the token away
in an address, so no address that is signed with it is taken. The API verifies the token in each of
its calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from lading.core.ids import Infix, is_uuid
from lading.core.s3.authorization import (
    Query,
    SignatureClaim,
    check_signature,
    check_time,
    expected_signature,
    read_claim,
    token_in_key,
)
from lading.core.s3.refusals import S3Refusal

FindSecret = Callable[[str], Awaitable[str]]
"""The secret of a token that is a key of S3, by its uuid; "" for another token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """The caller of a request: the token, and the secret that signed; without a claim it is the
    anonymous user.
    """

    token: str
    claim: SignatureClaim | None = None
    secret: str = ""


async def find_caller(
    find_secret: FindSecret,
    headers: Mapping[str, str],
    query: Query,
    *,
    method: str,
    raw_path: str,
    now: datetime,
    anonymous: str,
) -> Caller:
    """The caller of a request, whose signature was verified. Raises S3Refusal."""
    claim = read_claim(headers, query)
    if claim is None:
        if not anonymous:
            raise S3Refusal("AccessDenied", "sign the request with a key of S3, or a token")
        return Caller(token=anonymous)
    if "x-amz-security-token" in headers or any(
        name == "X-Amz-Security-Token" for name, _ in query
    ):
        raise S3Refusal("InvalidToken", "session tokens are not offered; use a key of S3")
    check_time(claim, now)
    token, secret = await _find_key(find_secret, claim)
    expected = expected_signature(
        claim, secret, method=method, raw_path=raw_path, query=query, headers=headers
    )
    check_signature(claim, expected)
    return Caller(token=token, claim=claim, secret=secret)


async def _find_key(find_secret: FindSecret, claim: SignatureClaim) -> tuple[str, str]:
    """The token and the secret of a claim. Raises S3Refusal."""
    token = token_in_key(claim.key_id)
    if token:
        if claim.is_presigned:
            raise S3Refusal(
                "AccessDenied",
                "the address would give the token away; sign it with a key of 'lading token create"
                " --s3'",
            )
        return token, claim.key_id
    secret = await find_secret(claim.key_id) if is_uuid(claim.key_id, Infix.TOKEN) else ""
    if not secret:
        raise S3Refusal(
            "InvalidAccessKeyId",
            "the access key is no key of S3; 'lading token create --s3' makes one",
        )
    return f"v2/{claim.key_id}/{secret}", secret
