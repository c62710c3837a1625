"""Credentials for the servers of inputs and outputs."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Invalid
from lading.core.tes.credentials import find_credential, parse_scope
from lading.core.tes.locations import parse_location
from lading.core.tes.s3_requests import BucketPlace


def record(name: str, kind: str, *scopes: str, expires: str = "2027") -> dict[str, Any]:
    return {"uuid": name, "credential_class": kind, "scopes": scopes, "expires_at": expires}


RECORDS = [
    record("bucket", "s3", "s3://data"),
    record("prefix", "s3", "s3://data/private/", "other words"),
    record("old", "s3", "s3://data/private/old", expires="2025"),
    record("web", "bearer", "https://host/a"),
    record("port", "basic", "https://host:8443"),
    record("ftp", "basic", "ftp://host/x"),
    record("other", "aws", "s3://data/private/x"),
]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("s3://data/x", "bucket"),
        ("s3://data/private/old/x", "prefix"),
        ("s3://data/privates", "bucket"),
        ("s3://others/x", ""),
        ("https://host/a/b?c", "web"),
        ("https://host/ab", ""),
        ("http://host/a", ""),
        ("https://host:8443/z", "port"),
        ("ftp://host/x/y", "ftp"),
    ],
)
def test_the_longest_scope_counts(url: str, name: str) -> None:
    found = find_credential(RECORDS, parse_location(url), now="2026")
    assert (found.record["uuid"] if found else "") == name


def test_places_of_buckets() -> None:
    text = "s3://b/p?endpoint=https%3A%2F%2Fminio%3A9000&region=eu&style=virtual"
    assert parse_scope(text, "s3").bucket == BucketPlace(
        bucket="b", endpoint="https://minio:9000", region="eu", path_style=False
    )
    assert parse_scope("s3://b?style=path", "s3").bucket == BucketPlace(bucket="b", path_style=True)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("https://host/", "s3"), ("s3://b?style=odd", "s3"), ("s3://b?x=y", "s3"),
        ("s3://b?endpoint=file:///etc", "s3"), ("no url", "s3"), ("ftp://host/a", "bearer"),
        ("s3://b", "basic"), ("https://host/?a=b", "basic"), ("https://me@host/", "bearer"),
    ],
)  # fmt: skip
def test_scopes_that_are_refused(text: str, kind: str) -> None:
    with pytest.raises(Invalid, match="scope: "):
        parse_scope(text, kind)


def test_a_refusal_of_a_scope_says_what_to_write() -> None:
    with pytest.raises(Invalid, match="write a URL such as s3://BUCKET/PREFIX"):
        parse_scope("results", "s3")
    with pytest.raises(Invalid, match="write a URL such as https://HOST/PATH"):
        parse_scope("results", "basic")


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/a/b", "web"),
        ("/a/%41", "web"),
        ("/a/..", ""),
        ("/a/../b", ""),
        ("/a/%2e%2e/b", ""),
        ("/a/%25252e./b", ""),
        ("/a/..;x/b", ""),
        ("/a/b\\..\\c", ""),
        (f"/a/{'%25' * 1}{'25' * 9}41", ""),
    ],
)
def test_a_path_that_may_lead_out_of_a_scope_is_in_none(path: str, name: str) -> None:
    found = find_credential(RECORDS, parse_location(f"https://host{path}"), now="2026")
    assert (found.record["uuid"] if found else "") == name
