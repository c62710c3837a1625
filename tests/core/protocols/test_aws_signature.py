from __future__ import annotations

import pytest

from lading.core.protocols.aws_signature import SigningScope, parse_signing_scope


def test_a_scope() -> None:
    scope = SigningScope("20260102", "eu-west-1")
    assert str(scope) == "20260102/eu-west-1/s3/aws4_request"
    assert parse_signing_scope(str(scope).split("/")) == scope


@pytest.mark.parametrize("text", ["", "20260102/eu/ec2/aws4_request", "20260102/eu/s3/aws3", "a/b"])
def test_other_scopes(text: str) -> None:
    assert parse_signing_scope(text.split("/")) is None
