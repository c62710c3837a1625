"""Signatures; the examples with known signatures are those of the Amazon S3 API Reference."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from lading.core.protocols.aws_signature import EMPTY_HASH
from lading.core.s3.authorization import (
    SKEW,
    check_signature,
    check_time,
    expected_signature,
    read_claim,
    read_query,
    token_in_key,
)
from lading.core.s3.refusals import S3Refusal

KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = datetime(2013, 5, 24, tzinfo=UTC)
PUT_HASH = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072"
HOST = "examplebucket.s3.amazonaws.com"


def header(names: str, signature: str) -> str:
    """An Authorization header."""
    credential = f"{KEY}/20130524/us-east-1/s3/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names},Signature={signature}"


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "payload", "signature"),
    [
        (
            "GET", "/test.txt", "", {"range": "bytes=0-9"}, EMPTY_HASH,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test%24file.text", "",
            {
                "date": "Fri, 24 May 2013 00:00:00 GMT",
                "x-amz-storage-class": "REDUCED_REDUNDANCY",
            },
            PUT_HASH, "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET", "/", "lifecycle", {}, EMPTY_HASH,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET", "/", "max-keys=2&prefix=J", {}, EMPTY_HASH,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_known_signatures(
    method: str, path: str, query: str, headers: dict[str, str], payload: str, signature: str
) -> None:
    sent = {
        "host": HOST,
        "x-amz-content-sha256": payload,
        "x-amz-date": "20130524T000000Z",
        **headers,
    }
    sent["authorization"] = header(";".join(sorted(sent)), signature)
    claim = read_claim(sent, read_query(query))
    assert claim is not None
    expected = expected_signature(
        claim, SECRET, method=method, raw_path=path, query=read_query(query), headers=sent
    )
    check_signature(claim, expected)
    check_time(claim, NOW)
    other = {**sent, "host": "other"}
    forged = expected_signature(
        claim, SECRET, method=method, raw_path=path, query=read_query(query), headers=other
    )
    with pytest.raises(S3Refusal, match="does not match"):
        check_signature(claim, forged)


ADDRESS = (
    "X-Amz-Algorithm=AWS4-HMAC-SHA256"
    "&X-Amz-Credential=AKIAIOSFODNN7EXAMPLE%2F20130524%2Fus-east-1%2Fs3%2Faws4_request"
    "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host"
    "&X-Amz-Signature=aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"
)


def test_a_known_address() -> None:
    query, headers = read_query(ADDRESS), {"host": HOST}
    claim = read_claim(headers, query)
    assert claim is not None
    assert claim.is_presigned
    expected = expected_signature(
        claim, SECRET, method="GET", raw_path="/test.txt", query=query, headers=headers
    )
    check_signature(claim, expected)
    check_time(claim, NOW + timedelta(days=1))
    with pytest.raises(S3Refusal, match="has expired"):
        check_time(claim, NOW + timedelta(days=1, seconds=1))
    with pytest.raises(S3Refusal, match="not valid yet"):
        check_time(claim, NOW - SKEW - timedelta(seconds=1))


@pytest.mark.parametrize("minutes", [-16, 16])
def test_another_time(minutes: int) -> None:
    claim = read_claim(signed(), ())
    assert claim is not None
    with pytest.raises(S3Refusal, match="by more than 15 minutes"):
        check_time(claim, NOW + timedelta(minutes=minutes))


def signed(**changes: str | None) -> dict[str, str]:
    """The headers of a signed request, with some changed; underscores stand for dashes."""
    names = "host;x-amz-content-sha256;x-amz-date"
    headers: dict[str, str | None] = {
        "host": HOST,
        "x-amz-content-sha256": EMPTY_HASH,
        "x-amz-date": "20130524T000000Z",
        "authorization": header(names, "0" * 64),
    }
    headers |= {name.replace("_", "-"): value for name, value in changes.items()}
    return {name: value for name, value in headers.items() if value is not None}


GOOD = header("host;x-amz-content-sha256;x-amz-date", "0" * 64)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"authorization": "AWS key:signature"}, "InvalidRequest"),
        ({"authorization": "Bearer token"}, "InvalidRequest"),
        ({"authorization": "AWS4-HMAC-SHA256 Credential=a"}, "AuthorizationHeaderMalformed"),
        ({"authorization": GOOD.replace("/s3/", "/ec2/")}, "AuthorizationHeaderMalformed"),
        ({"authorization": GOOD.replace(f"{KEY}/", "")}, "AuthorizationHeaderMalformed"),
        ({"authorization": GOOD.replace("20130524", "20130525")}, "AuthorizationHeaderMalformed"),
        ({"authorization": GOOD.replace("host;", "")}, "AccessDenied"),
        ({"authorization": GOOD.replace("host;", "host;" + "a;" * 100)}, "InvalidRequest"),
        ({"authorization": GOOD[:-1]}, "SignatureDoesNotMatch"),
        ({"x_amz_date": "now"}, "AccessDenied"),
        ({"x_amz_date": "20139924T000000Z"}, "AccessDenied"),
        ({"x_amz_content_sha256": None}, "InvalidRequest"),
        ({"x_amz_content_sha256": "abc"}, "InvalidRequest"),
        ({"x_amz_content_sha256": "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"}, "NotImplemented"),
        ({"x_amz_copy_source": "/a/b"}, "AccessDenied"),
    ],
)
def test_malformed_headers(changes: dict[str, str | None], code: str) -> None:
    with pytest.raises(S3Refusal) as caught:
        read_claim(signed(**changes), ())
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("=AWS4-HMAC-SHA256", "=AWS4-ECDSA"),
        ("&X-Amz-Date=20130524T000000Z", ""),
        ("=20130524T000000Z", "=now"),
        ("=20130524T000000Z", "=20130525T000000Z"),
        ("Expires=86400", "Expires=x"),
        ("Expires=86400", "Expires=0"),
        ("Expires=86400", "Expires=604801"),
        ("%2Fs3%2F", "%2Fec2%2F"),
        ("us-east-1", "%FF"),
    ],
)
def test_malformed_addresses(old: str, new: str) -> None:
    with pytest.raises(S3Refusal) as caught:
        read_claim({"host": HOST}, read_query(ADDRESS.replace(old, new)))
    assert caught.value.code == "AuthorizationQueryParametersError"


def test_one_signature_of_the_right_version() -> None:
    assert read_claim({"host": HOST}, ()) is None
    with pytest.raises(S3Refusal, match="not both"):
        read_claim(signed(), read_query(ADDRESS))
    with pytest.raises(S3Refusal, match="Version 2 is not taken"):
        read_claim({}, read_query("AWSAccessKeyId=a&Signature=b"))
    with pytest.raises(S3Refusal, match="was not signed"):
        read_claim({"host": HOST, "x-amz-content-sha256": "a"}, read_query(ADDRESS))


def test_a_token_in_a_key() -> None:
    assert token_in_key("v2_zzzzz-gj3su-000000000000001_secret") == (
        "v2/zzzzz-gj3su-000000000000001/secret"
    )
    assert token_in_key("zzzzz-gj3su-000000000000001") == ""


def test_a_plus_sign_is_a_space() -> None:
    assert read_query("a+b=c%2Bd&&e") == [("a b", "c+d"), ("e", "")]
