"""URLs of inputs and outputs."""

from __future__ import annotations

import pytest

from lading.core.errors import Malformed
from lading.core.tes.locations import (
    Location,
    LocationScheme,
    decode,
    encode,
    host_header,
    join_url,
    parse_location,
    shown,
)


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("/data/a%20b", {"scheme": LocationScheme.FILE, "path": "/data/a%20b"}),
        ("file:///data/a%20b/", {"scheme": LocationScheme.FILE, "path": "/data/a b/"}),
        ("file://localhost/a", {"scheme": LocationScheme.FILE, "path": "/a"}),
        ("keep:abc/d", {"scheme": LocationScheme.KEEP, "path": "abc/d"}),
        ("s3://bucket/a?b#c%20", {"scheme": LocationScheme.S3, "host": "bucket",
                                  "path": "a?b#c%20"}),
        ("S3://bucket", {"scheme": LocationScheme.S3, "host": "bucket"}),
        ("https://u:p%40@Host.example:8443/a b?c=d e#f",
         {"scheme": LocationScheme.HTTPS, "host": "host.example", "port": 8443, "path": "/a%20b",
          "query": "?c=d%20e", "user": "u", "password": "p@"}),
        ("http://[::1]", {"scheme": LocationScheme.HTTP, "host": "::1", "port": 80, "path": "/"}),
        ("ftp://host/a%20b", {"scheme": LocationScheme.FTP, "host": "host", "port": 21,
                              "path": "/a b"}),
        ("drs://host/id%2F1", {"scheme": LocationScheme.DRS, "host": "host", "port": 443,
                               "path": "id/1"}),
    ],
)  # fmt: skip
def test_parts(url: str, parts: dict[str, object]) -> None:
    assert parse_location(url) == Location(**parts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "url",
    [
        "", "a", "a:b", "gs://bucket/x", "file://host/a", "file:///", "file:///a/../b", "/a//b",
        "file:///a/%2e%2e/b", "file:///a%00", "s3://", "s3://b_/\n", "s3://../x", "http://",
        "http://host:0/", "http://host:70000/", "http://a b/", "ftp://host", "ftp://host/",
        "ftp://host/a%0d%0aQUIT", "drs://host/", "http://x/" + "a" * 9000,
    ],
)  # fmt: skip
def test_what_is_no_url(url: str) -> None:
    with pytest.raises(Malformed):
        parse_location(url)


def test_names() -> None:
    assert parse_location("http://h/a/b%20c").name == "b c"
    assert parse_location("s3://bucket/a/b%20c/").name == "b%20c"
    assert parse_location("http://h/").name == ""


def test_files_below_a_directory() -> None:
    assert join_url("s3://b/p/", "a b?") == "s3://b/p/a b?"
    assert join_url("/data", "a b") == "/data/a b"
    assert join_url("https://h/p", "a b/c?") == "https://h/p/a%20b/c%3F"
    assert join_url("no url", "a") == "no url/a"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://u:p@h:8443/a%20b?X-Amz-Signature=1#f", "https://h:8443/a b"),
        ("http://[::1]/a", "http://[::1]/a"),
        ("s3://b/k", "s3://b/k"),
        ("keep:x", "keep:x"),
        ("/a", "file:///a"),
        ("drs://h/x", "drs://h/x"),
        ("secret://x?y", "secret: URL"),
        ("http://h/a%0Ab", "http://h/a\\nb"),
    ],
)
def test_what_messages_show(url: str, text: str) -> None:
    assert shown(url) == text


def test_bytes_that_are_no_utf8() -> None:
    assert encode(decode("%FF")) == "%FF"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("https://a.example/x", "a.example"),
        ("https://a.example:443/x", "a.example"),
        ("http://a.example:443/x", "a.example:443"),
        ("http://[::1]/x", "[::1]"),
        ("http://[::1]:8080/x", "[::1]:8080"),
    ],
)
def test_the_header_with_the_host(url: str, host: str) -> None:
    assert host_header(parse_location(url)) == host
