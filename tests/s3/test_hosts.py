from __future__ import annotations

from typing import Any

import pytest

from lading.s3.hosts import BucketHosts, S3Site


def scope(
    path: str, host: str = "site", query: bytes = b"", authorization: bytes = b""
) -> dict[str, Any]:
    """The scope of a call."""
    headers = [(b"host", host.encode()), (b"authorization", authorization)]
    return {"path": path, "headers": headers, "query_string": query}


@pytest.mark.parametrize(
    ("call", "is_owned"),
    [
        (scope("/s3"), True),
        (scope("/s3/bucket"), True),
        (scope("/s3x"), False),
        (scope("/b", authorization=b"AWS4-HMAC-SHA256 Credential=a"), True),
        (scope("/b", authorization=b"Bearer a"), False),
        (scope("/b", query=b"a=1&X-Amz-Signature=2"), True),
        (scope("/b", host="s3.example.org:443"), True),
        (scope("/b", host="b.s3.example.org"), True),
        (scope("/b", host="bs3.example.org"), False),
    ],
)
def test_owned_calls(call: dict[str, Any], is_owned: bool) -> None:
    assert BucketHosts("S3.example.org").owns(call) is is_owned


def test_without_a_host_of_its_own() -> None:
    assert not BucketHosts().owns(scope("/b", host="b.s3.example.org"))
    assert BucketHosts().find("/b/k", {"host": "x.y"}) == S3Site()


def test_the_bucket_in_the_host() -> None:
    hosts = BucketHosts("s3.example.org")
    assert hosts.find("/k", {"host": "b.s3.example.org:9"}) == S3Site(bucket="b")
    assert hosts.find("/b/k", {"host": "s3.example.org"}) == S3Site()
    assert hosts.find("/s3/b/k", {"host": "other"}) == S3Site(prefix="/s3")
