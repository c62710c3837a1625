"""Files of HTTP servers."""

from __future__ import annotations

import pytest

from lading.core.tes.locations import parse_location
from lading.core.tes.transfers import ObjectFacts
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.http_server import HttpSource, basic_credentials, range_headers
from lading.tes.transfers.outside_http import OutsideHttp, PassingFault
from tests.tes.outside import MeanServer

KNOWN = ObjectFacts(size=3, validator='"1"', etag='"1"')


async def read(server: MeanServer, url: str, start: int) -> tuple[int, bytes]:
    async with OutsideHttp(OutsideNetwork(allowed=("127.0.0.0/8",))) as http:
        source = HttpSource(http, parse_location(url), url)
        async with source.open(start, KNOWN) as opened:
            return opened.start, b"".join([one async for one in opened.pieces])


async def test_parts(server: MeanServer) -> None:
    url = server.add("/a", b"abc")
    assert await read(server, url, 0) == (0, b"abc")
    assert await read(server, url, 1) == (1, b"bc")
    server.pages["/a"].etag = '"2"'
    # It is another object now: all of it comes.
    assert await read(server, url, 1) == (0, b"abc")
    assert range_headers(1, ObjectFacts(size=3)) == {}


@pytest.mark.parametrize("status", [206, 416])
async def test_ranges_that_nobody_asked_for(server: MeanServer, status: int) -> None:
    headers = {"content-range": "bytes 7-9/10"}
    url = server.add("/a", b"abc", refusals=[status], headers=headers)
    with pytest.raises(PassingFault):
        await read(server, url, 1)


async def test_credentials_of_the_url(server: MeanServer) -> None:
    url = server.add("/a", b"abc").replace("http://", "http://me:pass@")
    assert await read(server, url, 0) == (0, b"abc")
    assert server.seen[0][2]["authorization"] == "Basic bWU6cGFzcw=="
    assert basic_credentials(parse_location("http://h/")) == {}
