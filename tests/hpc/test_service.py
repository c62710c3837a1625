"""The daemon's HTTPS: authorization, bodies, connections."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

import pytest

from lading.hpc.service import DaemonResponse, DaemonService
from tests.hpc_daemon import Rig


async def _nothing(*_: object) -> DaemonResponse:
    return DaemonResponse(200, b"")


def _service(tmp_path: Path) -> DaemonService:
    return DaemonService(_nothing, authorization="right", scratch=tmp_path)


@pytest.mark.parametrize(
    ("headers", "right"),
    [
        ({"authorization": "right"}, True),
        ({"authorization": "Bearer right"}, True),
        ({"www-authenticate": "right"}, True),
        ({}, False),
        ({"authorization": ""}, False),
        ({"authorization": "righ"}, False),
        ({"authorization": "right "}, False),
        ({"authorization": "Basic right"}, False),
        ({"authorization": "r\xefght"}, False),
        ({"x-authorization": "right"}, False),
    ],
)
def test_only_the_right_word_opens(tmp_path: Path, headers: dict[str, str], right: bool) -> None:
    """An earlier daemon read it from a header that only servers send."""
    assert _service(tmp_path).is_authorized(headers) is right


def test_the_comparison_takes_as_long_whatever_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every header is compared by its digest, of one length, and none is skipped."""
    compared: list[tuple[int, int]] = []

    def compare(one: bytes, other: bytes) -> bool:
        compared.append((len(one), len(other)))
        return one == other

    monkeypatch.setattr("lading.hpc.service.hmac.compare_digest", compare)
    for given in ({}, {"authorization": "right"}, {"www-authenticate": "x" * 1000}):
        compared.clear()
        _service(tmp_path).is_authorized(given)
        assert compared == [(32, 32)] * 4


def test_without_authorization_nothing_is_learned(rig: Rig) -> None:
    for path in ("/v1/query", "/v1/no-such-path", "/v1/command"):
        for headers in ({}, {"Authorization": "wrong"}, {"Authorization": "Bearer "}):
            reply = rig.call("POST", path, b"{" * 10, headers)
            assert (reply.status, reply.said, reply.data) == (
                401,
                "fail",
                {"message": "Bad Authorization header"},
            )


def test_what_is_not_there_is_said_in_jsend(rig: Rig) -> None:
    assert [rig.call("GET", path).status for path in ("/", "/v2/query", "/v1/query/x")] == [
        404,
        404,
        404,
    ]
    assert rig.call("DELETE", "/v1/query").status == 405
    assert rig.call("GET", "/v1/command").said == "fail"


def _raw(rig: Rig, data: bytes) -> bytes:
    context = ssl.create_default_context(cadata=rig.identity.certificate)
    plain = socket.create_connection(("127.0.0.1", rig.port), timeout=20)
    with context.wrap_socket(plain, server_hostname="localhost") as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def test_what_is_no_http_is_refused(rig: Rig) -> None:
    word = rig.identity.authorization.encode()
    head = (
        b"POST /v1/command HTTP/1.1\r\nAuthorization: "
        + word
        + b"\r\nContent-Type: application/json\r\n"
    )
    assert _raw(rig, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert _raw(rig, b"GET / HTTP/1.1\r\nA: " + b"x" * 40_000 + b"\r\n\r\n").startswith(
        b"HTTP/1.1 400 "
    )
    assert _raw(rig, head + b"Content-Length: 9000000\r\n\r\n").startswith(b"HTTP/1.1 413 ")
    assert _raw(rig, head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n").startswith(
        b"HTTP/1.1 400 "
    )
    assert _raw(rig, head + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxyz\r\n0\r\n\r\n").startswith(
        b"HTTP/1.1 400 "
    )
    chunks = b"Transfer-Encoding: chunked\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n"
    body = b'5;x=y\r\n{"com\r\n12\r\nmand": "upload"}  \r\n0\r\nX: y\r\n\r\n'
    answer = _raw(rig, head + chunks + body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")
    assert b"upload started" in answer


def test_who_sends_much_hears_why_it_is_refused(rig: Rig) -> None:
    kind = {"Content-Type": "application/json"}
    right = {**kind, "Authorization": rig.identity.authorization}
    for _ in range(3):
        assert (
            rig.call(
                "POST", "/v1/command", bytes(3 << 20), {**kind, "Authorization": "wrong"}
            ).status
            == 401
        )
        assert rig.call("POST", "/v1/command", bytes(3 << 20), right).status == 413


def test_connections_are_kept(rig: Rig) -> None:
    context = ssl.create_default_context(cadata=rig.identity.certificate)
    connection = http.client.HTTPSConnection("localhost", rig.port, context=context, timeout=20)
    sockets = set()
    for _ in range(3):
        connection.request(
            "GET", "/v1/heartbeat", headers={"Authorization": rig.identity.authorization}
        )
        assert connection.getresponse().read()
        sockets.add(connection.sock)
    connection.close()
    assert len(sockets) == 1
