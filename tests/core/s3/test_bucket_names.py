from __future__ import annotations

import pytest

from lading.core.s3.bucket_names import (
    BucketKind,
    BucketName,
    ObjectAddress,
    is_bucket_name,
    parse_bucket,
    parse_path,
    readable_path,
    writable_path,
)
from lading.core.s3.refusals import S3Refusal

UUID, PROJECT, USER = (f"zzzzz-{infix}-000000000000001" for infix in ("4zz18", "j7d0g", "tpzed"))
HASH = "0" * 32


@pytest.mark.parametrize(
    ("raw", "prefix", "host", "address"),
    [
        ("/s3", "/s3", "", ObjectAddress("", "")),
        ("/s3/b", "/s3", "", ObjectAddress("b", "")),
        ("/s3/b/", "/s3", "", ObjectAddress("b", "")),
        ("/s3/b/a%2Fb/c%20d/", "/s3", "", ObjectAddress("b", "a/b/c d/")),
        ("/b//x", "", "", ObjectAddress("b", "/x")),
        ("/a/b", "", "host", ObjectAddress("host", "a/b")),
    ],
)
def test_addresses(raw: str, prefix: str, host: str, address: ObjectAddress) -> None:
    assert parse_path(raw, prefix=prefix, host_bucket=host) == address


@pytest.mark.parametrize("raw", ["/b/%FF", "/b/" + "k" * 1025, "/b/" + "%20" * 9000])
def test_addresses_that_no_object_has(raw: str) -> None:
    with pytest.raises(S3Refusal):
        parse_path(raw, prefix="")


@pytest.mark.parametrize(
    ("name", "bucket"),
    [
        (UUID, BucketName(BucketKind.COLLECTION, UUID)),
        (PROJECT, BucketName(BucketKind.PROJECT, PROJECT)),
        (USER, BucketName(BucketKind.PROJECT, USER)),
        (f"{HASH}-12", BucketName(BucketKind.CONTENT, f"{HASH}+12")),
        (f"{HASH}+12", BucketName(BucketKind.CONTENT, f"{HASH}+12")),
        ("my-data.1", BucketName(BucketKind.NAMED, "my-data.1")),
    ],
)
def test_buckets(name: str, bucket: BucketName) -> None:
    assert parse_bucket(name) == bucket


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("zzzzz-dz642-000000000000001", "NoSuchBucket"),
        ("ab", "InvalidBucketName"),
        ("My-Data", "InvalidBucketName"),
        ("a..b", "InvalidBucketName"),
        ("a.-b", "InvalidBucketName"),
        ("1.2.3.4", "InvalidBucketName"),
        ("a/../b", "InvalidBucketName"),
    ],
)
def test_other_buckets(name: str, code: str) -> None:
    with pytest.raises(S3Refusal) as caught:
        parse_bucket(name)
    assert caught.value.code == code


def test_names_of_records_are_no_names() -> None:
    assert not is_bucket_name(UUID)
    assert not is_bucket_name(f"{HASH}-12")
    assert is_bucket_name("abc")


def test_paths() -> None:
    assert [readable_path(key) for key in ("a/b", "a/", "", "/", "../a", "a//b")] == [
        "a/b", "a", None, None, None, None,
    ]  # fmt: skip
    assert writable_path("a/b/") == "a/b"
    for key in ("", "/", "../a", "a/./b", "a\0"):
        with pytest.raises(S3Refusal, match="cannot be a file"):
            writable_path(key)
