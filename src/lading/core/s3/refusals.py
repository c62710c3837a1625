"""Refusals of S3: the codes that clients know, with the HTTP status of each.

Source: Amazon S3 API Reference, Error responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lading.core.errors import (
    Conflict,
    Forbidden,
    Full,
    LadingError,
    NotFound,
    RequestError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from lading.core.quantities import shorten

STATUSES: Final[Mapping[str, int]] = {
    "AccessDenied": 403,
    "AuthorizationHeaderMalformed": 400,
    "AuthorizationQueryParametersError": 400,
    "BadDigest": 400,
    "BucketAlreadyExists": 409,
    "BucketAlreadyOwnedByYou": 409,
    "BucketNotEmpty": 409,
    "EntityTooLarge": 400,
    "EntityTooSmall": 400,
    "IncompleteBody": 400,
    "InternalError": 500,
    "InvalidAccessKeyId": 403,
    "InvalidArgument": 400,
    "InvalidBucketName": 400,
    "InvalidDigest": 400,
    "InvalidPart": 400,
    "InvalidPartOrder": 400,
    "InvalidRange": 416,
    "InvalidRequest": 400,
    "InvalidToken": 400,
    "KeyTooLongError": 400,
    "MalformedXML": 400,
    "MethodNotAllowed": 405,
    "MissingContentLength": 411,
    "NoSuchBucket": 404,
    "NoSuchKey": 404,
    "NoSuchUpload": 404,
    "NotImplemented": 501,
    "ObjectExistsAsDirectory": 409,
    "OperationAborted": 409,
    "ParentIsObject": 409,
    "PreconditionFailed": 412,
    "QuotaExceeded": 403,
    "RequestTimeTooSkewed": 403,
    "RequestTimeout": 400,
    "ServiceUnavailable": 503,
    "SignatureDoesNotMatch": 403,
    "XAmzContentSHA256Mismatch": 400,
}
"""The status of each code."""
_BY_STATUS: Final[Mapping[int, str]] = {
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    412: "PreconditionFailed",
}


def shown_key(key: str) -> str:
    """The key of an object in a message, with at most 100 characters."""
    # A character that is not printable takes ten.
    return shorten(repr(key[:80]), 100)


class S3Refusal(RequestError):
    """A refused request, with a code of S3."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.status = STATUSES[code]


def code_of(error: LadingError) -> str:
    """The code of S3 that says most of an error."""
    match error:
        case S3Refusal():
            return error.code
        case Unauthenticated():
            # Clients know no status 401: a key that is not valid is refused so.
            return "InvalidAccessKeyId"
        case Forbidden():
            return "AccessDenied"
        case NotFound():
            return "NoSuchKey"
        case TooLarge():
            return "EntityTooLarge"
        case Conflict():
            return "OperationAborted"
        case Full():
            return "QuotaExceeded"
        case Unavailable():
            return "ServiceUnavailable"
    return _BY_STATUS.get(error.status, "InvalidRequest" if error.status < 500 else "InternalError")
