"""Objects of DRS servers."""

from __future__ import annotations

from typing import Any

import pytest

from lading.core.errors import Malformed
from lading.core.tes.drs_objects import (
    DrsAccess,
    locate,
    read_access,
    read_object,
    validator_of,
)
from lading.core.tes.locations import parse_location

MD5, SHA = "0" * 32, "1" * 64


def way(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, **more}


def test_addresses() -> None:
    location = parse_location("drs://host:8443/a%2Fb")
    path = "/ga4gh/drs/v1/objects/a%2Fb"
    assert locate(location) == parse_location(f"https://host:8443{path}")
    assert locate(location, "x/y") == parse_location(f"https://host:8443{path}/access/x%2Fy")


def test_the_best_way_and_the_checksums() -> None:
    ways: Any = [
        way("gs", access_url={"url": "gs://b/x"}),
        way("s3", access_url={"url": "s3://b/x"}),
        way("https", access_url={"url": "https://h/x", "headers": ["Authorization: Bearer x"]}),
    ]
    sums: Any = [
        {"type": "MD5", "checksum": MD5},
        {"type": "sha-256", "checksum": SHA.upper()},
        {"type": "crc32c", "checksum": "1"},
        {"type": "md5", "checksum": "short"},
    ]
    found = read_object({"name": "n", "access_methods": ways, "checksums": sums})
    assert found.access == DrsAccess(url="https://h/x", headers=(("authorization", "Bearer x"),))
    assert (found.name, found.checksums) == ("n", (("sha256", SHA), ("md5", MD5)))
    assert validator_of(found) == f"drs sha256 {SHA}"
    plain = read_object({"access_methods": [way("s3", access_id="1")]})
    assert (plain.access, validator_of(plain)) == (DrsAccess(access_id="1"), "")


@pytest.mark.parametrize(
    "found",
    [
        None,
        {},
        {"contents": [{}]},
        {"access_methods": [way("gs", access_url={"url": "gs://b/x"})]},
        {"access_methods": [way("https")]},
        {"access_methods": [way("https", access_url={"url": "file:///etc/passwd"})]},
        {"access_methods": [way("https", access_url={"url": "drs://h/x"})]},
    ],
)
def test_objects_that_cannot_be_used(found: Any) -> None:
    with pytest.raises(Malformed):
        read_object(found)


@pytest.mark.parametrize(
    "header", [1, "no colon", "Host: inside", "X: a\nb", "Content-Length: 1", "A b: c"]
)
def test_headers_that_are_not_sent(header: Any) -> None:
    with pytest.raises(Malformed):
        read_access({"url": "https://h/x", "headers": [header]})
    with pytest.raises(Malformed):
        read_access([])
