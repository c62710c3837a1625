from __future__ import annotations

import pytest

from lading.core.errors import (
    Conflict,
    Corrupt,
    Forbidden,
    Full,
    LadingError,
    Malformed,
    NotFound,
    TooLarge,
    Unauthenticated,
    Unavailable,
    from_status,
)
from lading.core.s3.refusals import STATUSES, S3Refusal, code_of, shown_key


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (S3Refusal("NoSuchUpload", "x"), "NoSuchUpload"),
        (Unauthenticated(), "InvalidAccessKeyId"),
        (Forbidden("x"), "AccessDenied"),
        (NotFound("x"), "NoSuchKey"),
        (TooLarge("x"), "EntityTooLarge"),
        (Conflict("x"), "OperationAborted"),
        (Full("x"), "QuotaExceeded"),
        (Unavailable("x"), "ServiceUnavailable"),
        (from_status(412, "x"), "PreconditionFailed"),
        (from_status(408, "x"), "RequestTimeout"),
        (Malformed("x"), "InvalidRequest"),
        (Corrupt("x"), "InternalError"),
    ],
)
def test_codes(error: LadingError, code: str) -> None:
    assert code_of(error) == code
    assert code in STATUSES


def test_keys_in_messages_are_short() -> None:
    assert shown_key("a'b") == '"a\'b"'
    assert len(shown_key("\U000e0001" * 1000)) <= 100
