"""HTTP to servers that tasks name."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lading.core.errors import Forbidden, Invalid, LadingError
from lading.core.tes.locations import parse_location
from lading.net.outside_way import OutsideNetwork
from lading.tes.transfers.outside_http import OutsideHttp, PassingFault, check_status
from tests.tes.outside import MeanServer


@pytest.fixture
async def http() -> AsyncIterator[OutsideHttp]:
    network = OutsideNetwork(allowed=("127.0.0.1/32",))
    async with OutsideHttp(network, timeout=5) as made:
        yield made


async def get(http: OutsideHttp, url: str, **headers: str) -> tuple[int, bytes]:
    async with http.exchange("GET", parse_location(url), headers) as answer:
        return answer.status, await answer.read()


async def test_bodies_are_read_up_to_a_limit(http: OutsideHttp, server: MeanServer) -> None:
    url = server.add("/a", b"x" * 1000)
    async with http.exchange("GET", parse_location(url), {}) as answer:
        assert await answer.read(10) == b"x" * 10
    assert await get(http, server.url + "/none") == (404, b"")


async def test_redirects(http: OutsideHttp, server: MeanServer) -> None:
    server.add("/d/b", b"there")
    url = server.add("/d/a", b"", location="b?x=1")
    assert await get(http, url, authorization="secret") == (200, b"there")
    assert server.seen[-1][1] == "/d/b?x=1"
    assert server.seen[-1][2]["authorization"] == "secret"


async def test_credentials_stay_with_their_server(http: OutsideHttp, server: MeanServer) -> None:
    server.add("/b", b"there")
    other = server.url.replace("127.0.0.1", "localhost") + "/b"
    url = server.add("/a", b"", location=other)
    network = OutsideNetwork(allowed=("127.0.0.0/8", "::1/128"))
    async with OutsideHttp(network, timeout=5) as both:
        assert await get(both, url, authorization="secret") == (200, b"there")
    assert "authorization" not in server.seen[-1][2]


@pytest.mark.parametrize(
    ("location", "error"),
    [
        ("/a", Invalid),
        ("file:///etc/passwd", Forbidden),
        ("s3://bucket/x", Forbidden),
        ("http://127.0.0.2:1/", Forbidden),
        ("http://169.254.169.254/latest/meta-data", Forbidden),
        ("http://[::1]:1/", Forbidden),
        ("http://[", Invalid),
    ],
)
async def test_redirects_that_are_refused(
    http: OutsideHttp, server: MeanServer, location: str, error: type[LadingError]
) -> None:
    with pytest.raises(error):
        await get(http, server.add("/a", b"", location=location))


async def test_a_put_is_not_redirected_as_a_get(http: OutsideHttp, server: MeanServer) -> None:
    headers = {"location": "/b", "content-length": "0"}
    url = server.add("/a", b"", refusals=[302, 307], headers=headers)
    location = parse_location(url)
    with pytest.raises(Invalid, match="redirects PUT with 302"):
        async with http.exchange("PUT", location, {"content-length": "1"}, b"x"):
            pass
    async with http.exchange("PUT", location, {"content-length": "1"}, b"x") as answer:
        assert answer.status == 201
    assert server.stored == {"/b": b"x"}


async def test_faults_that_may_pass(http: OutsideHttp, server: MeanServer) -> None:
    with pytest.raises(PassingFault, match="cannot be reached"):
        await get(http, "http://127.0.0.1:1/")
    url = server.add("/a", b"abc", cuts=[1])
    with pytest.raises(PassingFault, match="ended before it was whole"):
        await get(http, url)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_statuses_that_may_pass(http: OutsideHttp, server: MeanServer, status: int) -> None:
    url = server.add("/a", b"", refusals=[status])
    async with http.exchange("GET", parse_location(url), {}) as answer:
        with pytest.raises(PassingFault) as caught:
            await check_status(answer, "host", 200)
    assert caught.value.asked == 7.0


async def test_an_answer_that_is_no_http(server: MeanServer) -> None:
    network = OutsideNetwork(allowed=("127.0.0.1/32",))
    url = server.add("/a", b"", refusals=[99])
    async with OutsideHttp(network, timeout=5) as http:
        with pytest.raises(Invalid):
            await get(http, url)


async def test_few_servers_are_kept(http: OutsideHttp, server: MeanServer) -> None:
    for number in range(2, 20):
        with pytest.raises((PassingFault, Forbidden)):
            await get(http, f"http://127.0.0.1:{number}/")
    assert (await get(http, server.add("/a", b"x")))[1] == b"x"
