from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lading.core.errors import Malformed
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead

REQUEST = (
    b"POST /a?b HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\nX-Arvados-A: 1\r\n"
    b"Empty:\r\n\r\n"
)


def test_a_request() -> None:
    head = http_head.parse_request(REQUEST)
    assert (head.method, head.target, head.get("host"), head.get("none"), head.get("empty")) == (
        "POST", "/a?b", "h", "", "",
    )  # fmt: skip
    assert head.says("connection", "upgrade")
    assert not head.says("connection", "close")


def test_an_answer() -> None:
    assert (
        http_head.parse_answer(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: ssh\r\n\r\n").status
        == 101
    )
    assert http_head.parse_answer(b"HTTP/1.0 200\r\n\r\n").fields == ()


def test_it_is_changed_and_written_again() -> None:
    head = (
        http_head.parse_request(REQUEST)
        .without({"connection", "empty"}, prefix="x-arvados-")
        .having({"Via": "me"})
    )
    assert head.encode() == b"POST /a?b HTTP/1.1\r\nHost: h\r\nVia: me\r\n\r\n"
    assert head.without(()) == head


@pytest.mark.parametrize(
    "bad",
    [
        b"", b"GET /\r\n\r\n", b"GET / HTTP/2\r\n\r\n", b"GET /a b HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n folded: 1\r\n\r\n", b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET / HTTP/1.1\r\na : 1\r\n\r\n", b"GET / HTTP/1.1\r\na: 1\nb: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: \r\n"
        b"Transfer-Encoding: chunked\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: \xb2\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nContent-Length: %s\r\n\r\n" % (b"1" * 5000),
    ],
)  # fmt: skip
def test_what_two_readers_may_read_differently_does_not_pass(bad: bytes) -> None:
    with pytest.raises(Malformed, match="HTTP"):
        http_head.parse_request(bad)


def test_no_answer() -> None:
    with pytest.raises(Malformed):
        http_head.parse_answer(REQUEST)
    with pytest.raises(Malformed, match="'x' is no length"):
        http_head.parse_answer(b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")


@given(st.binary(max_size=200))
def test_what_passes_is_written_as_it_means(data: bytes) -> None:
    try:
        head = http_head.parse_request(b"GET / HTTP/1.1\r\n" + data + http_head.END)
    except Malformed:
        return
    again = http_head.parse_request(head.encode())
    assert isinstance(again, HttpHead)
    assert again == head
