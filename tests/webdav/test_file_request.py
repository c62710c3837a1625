from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lading.webdav.file_request import DavRequest
from lading.webdav.file_request import parse_address as parse


async def nothing() -> AsyncIterator[bytes]:
    for piece in list[bytes]():
        yield piece


def a_request(query: str = "", token: str = "t", **headers: str) -> DavRequest:
    address = parse("/c=zzzzz-4zz18-000000000000001/f")
    return DavRequest(
        method="GET", address=address, token=token, headers=headers, query=query, body=nothing()
    )


@pytest.mark.parametrize(("text", "length"), [("5", 5), ("", None), ("-1", None), ("٣", None)])
def test_length(text: str, length: int | None) -> None:
    assert a_request(**{"content-length": text}).length == length


def test_parameters_and_holders() -> None:
    assert a_request("a=b&c=").parameter("a") == "b"
    assert a_request("a=b").parameter("c") == ""
    assert a_request(token="t").holder != a_request(token="u").holder
    assert "t" * 10 not in a_request(token="t" * 10).holder
