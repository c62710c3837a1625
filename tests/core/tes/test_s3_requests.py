"""Requests to S3."""

from __future__ import annotations

import hashlib

import pytest

from lading.core.errors import Malformed
from lading.core.tes.locations import parse_location
from lading.core.tes.s3_requests import (
    AccessKey,
    BucketPlace,
    ListedObject,
    element,
    part_size,
    read_page,
    render_parts,
    sign,
)

KEY = AccessKey(key_id="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = hashlib.sha256(b"").hexdigest()


@pytest.mark.parametrize(
    ("method", "url", "headers", "signature"),
    [
        # The examples of the documentation of S3, "Signature Calculations".
        ("GET", "/test.txt", {"range": "bytes=0-9"},
         "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"),
        ("GET", "/?lifecycle=", {},
         "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("GET", "/?max-keys=2&prefix=J", {},
         "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)  # fmt: skip
def test_signatures(method: str, url: str, headers: dict[str, str], signature: str) -> None:
    location = parse_location(f"https://examplebucket.s3.amazonaws.com{url}")
    signed = sign(
        method,
        location,
        headers,
        key=KEY,
        region="us-east-1",
        moment="20130524T000000Z",
        payload=EMPTY,
    )
    assert signed["authorization"].endswith(f"Signature={signature}")
    assert signed.items() >= headers.items()


def test_hosts_with_ports_and_lengths_that_are_not_signed() -> None:
    location = parse_location("http://[::1]:9000/b")
    signed = sign("PUT", location, {"content-length": "1"}, key=KEY, region="r", moment="2026")
    assert "SignedHeaders=host;x-amz-content-sha256;x-amz-date," in signed["authorization"]
    assert signed["content-length"] == "1"


@pytest.mark.parametrize(
    ("place", "key", "url"),
    [
        ({}, "a b/c", "https://bucket.s3.us-east-1.amazonaws.com/a%20b/c"),
        ({"bucket": "my.bucket"}, "", "https://s3.us-east-1.amazonaws.com/my.bucket"),
        ({"region": "eu-1", "path_style": True}, "k", "https://s3.eu-1.amazonaws.com/bucket/k"),
        ({"endpoint": "http://minio:9000/x/"}, "k", "http://minio:9000/x/bucket/k"),
        ({"endpoint": "https://m", "path_style": False}, "k", "https://bucket.m/k"),
    ],
)
def test_addresses(place: dict[str, object], key: str, url: str) -> None:
    found = BucketPlace(**{"bucket": "bucket", **place}).locate(key)  # type: ignore[arg-type]
    assert found == parse_location(url)


def test_queries_are_sorted_and_encoded() -> None:
    query = [("prefix", "a/b c"), ("list-type", "2"), ("uploads", "")]
    found = BucketPlace(bucket="b", endpoint="http://m").locate("", query)
    assert found.query == "?list-type=2&prefix=a%2Fb%20c&uploads="
    with pytest.raises(Malformed, match="endpoint"):
        BucketPlace(bucket="b", endpoint="file:///etc").locate("")


PAGE = """<?xml version="1.0"?><ListBucketResult xmlns="x"><IsTruncated>{cut}</IsTruncated>
<Contents><Key>a&amp;b</Key><ETag>&quot;1&quot;</ETag><Size>3</Size></Contents>
<Contents><Key>c</Key><Size>{size}</Size><Owner><ID>x</ID></Owner></Contents>{more}
</ListBucketResult>"""


def test_pages_of_listings() -> None:
    more = "<NextContinuationToken>t==</NextContinuationToken>"
    found = read_page(PAGE.format(cut="true", size="0", more=more))
    assert found.next_token == "t=="
    assert found.objects == (
        ListedObject(key="a&b", size=3, etag='"1"'),
        ListedObject(key="c", size=0, etag=""),
    )
    assert read_page(PAGE.format(cut="false", size="0", more=more)).next_token == ""


@pytest.mark.parametrize(
    "text",
    ["", "<html>", PAGE.format(cut="true", size="0", more=""),
     PAGE.format(cut="false", size="-1", more="")],
)  # fmt: skip
def test_answers_that_are_no_listing(text: str) -> None:
    with pytest.raises(Malformed):
        read_page(text)


def test_elements_and_parts() -> None:
    assert element("<A>x</A>", "B") == element("<A>x", "A") == ""
    assert render_parts(['"1"', "<"]) == (
        b'<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>"1"</ETag></Part>'
        b"<Part><PartNumber>2</PartNumber><ETag>&lt;</ETag></Part></CompleteMultipartUpload>"
    )
    assert part_size(1) == 64 << 20
    assert part_size(10_000 * (64 << 20) + 1) == (64 << 20) + 1


@pytest.mark.parametrize("region", ["evil.example/", "a@b", "a b", ""])
def test_a_region_that_names_a_host_is_refused(region: str) -> None:
    with pytest.raises(Malformed, match="the region of a bucket"):
        BucketPlace(bucket="bucket", region=region).locate("k")
