"""Which requests count as caused by a page of another origin, and what of a container's answer
passes.
"""

from __future__ import annotations

import pytest

from lading.core.errors import Forbidden
from lading.core.protocols import http_head
from lading.core.protocols.http_head import HttpHead

HERE = {"host": "api.example:9443"}
LINK = {"sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
BASIC = {"authorization": "Basic dTpw"}


@pytest.mark.parametrize(
    ("method", "headers", "foreign"),
    [
        ("POST", {}, False),
        ("POST", {"origin": "https://api.example:9443"}, False),
        ("POST", {"origin": "HTTPS://API.example:9443"}, False),
        ("POST", {"origin": "http://api.example:9443"}, True),
        ("POST", {"origin": "https://api.example"}, True),
        ("POST", {"origin": "https://api.example:9443.evil.example"}, True),
        ("POST", {"origin": "null"}, True),
        ("GET", {"origin": "https://evil.example"}, True),
        ("POST", {"sec-fetch-site": "same-origin", "origin": "https://proxied.example"}, False),
        ("POST", {"sec-fetch-site": "none"}, False),
        ("POST", {"sec-fetch-site": "same-site"}, True),
        ("POST", {"sec-fetch-site": "cross-site", "origin": "https://api.example:9443"}, True),
        ("GET", {"sec-fetch-site": "cross-site", **LINK}, False),
        ("HEAD", {"sec-fetch-site": "cross-site", **LINK}, False),
        ("POST", {"sec-fetch-site": "cross-site", **LINK}, True),
        (
            "GET",
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "no-cors",
                "sec-fetch-dest": "script",
            },
            True,
        ),
        ("GET", {"sec-fetch-site": "cross-site", **LINK, "sec-fetch-dest": "iframe"}, True),
        ("GET", {"sec-fetch-site": "same-site", "sec-fetch-mode": "websocket"}, True),
    ],
)
def test_who_caused_a_request(method: str, headers: dict[str, str], foreign: bool) -> None:
    assert http_head.is_foreign(method, {**HERE, **headers}, scheme="https") is foreign


def test_the_port_of_the_scheme_may_be_left_out() -> None:
    for host, origin, scheme in (
        ("a.example:443", "https://a.example", "https"), ("a.example", "https://a.example", "wss"),
        ("a.example:80", "http://a.example", "ws"), ("a.example:1", "other://a.example:1", "other"),
    ):  # fmt: skip
        assert not http_head.is_foreign("POST", {"host": host, "origin": origin}, scheme=scheme)
    assert http_head.is_foreign(
        "POST", {"host": "a.example:443", "origin": "http://a.example"}, scheme="https"
    )


@pytest.mark.parametrize(
    ("method", "headers", "refused"),
    [
        ("POST", {"content-type": "application/x-www-form-urlencoded"}, True),
        ("POST", {"content-type": "multipart/form-data; boundary=x"}, True),
        ("POST", {"content-type": "text/plain"}, True),
        ("POST", {}, True),
        ("POST", {"content-type": "Application/JSON; charset=utf-8"}, False),
        ("POST", {"content-type": "application/json", **BASIC}, True),
        ("GET", BASIC, True),
        ("GET", {"authorization": "basic x"}, True),
        ("GET", {}, False),
        ("PUT", {}, False),
        ("POST", {"authorization": "Bearer x", "content-type": "text/plain"}, False),
        ("POST", {"authorization": "OAuth2 x"}, False),
    ],
)
def test_what_a_page_of_another_origin_may_not(
    method: str, headers: dict[str, str], refused: bool
) -> None:
    foreign = {**HERE, **headers, "sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}
    if refused:
        with pytest.raises(Forbidden, match="another site"):
            http_head.check_call(method, foreign, scheme="https")
    else:
        http_head.check_call(method, foreign, scheme="https")
    http_head.check_call(method, {**HERE, **headers}, scheme="https")


def passed(*fields: tuple[str, str], by_path: bool) -> list[tuple[str, str]]:
    answer = HttpHead("HTTP/1.1 200 OK", fields)
    return list(
        http_head.passed_on(answer, by_path=by_path, reserved=("arvados_api_token",)).fields
    )


@pytest.mark.parametrize("by_path", [False, True])
def test_nothing_of_a_container_counts_for_its_neighbours(by_path: bool) -> None:
    for name in (
        *http_head.HOST_WIDE,
        "X-Accel-Redirect",
        "x-accel-buffering",
        "X-Arvados-Authorization-Response",
    ):
        assert passed((name, "x"), ("X-Mine", "1"), by_path=by_path) == [("X-Mine", "1")]
        assert passed((name.upper(), "x"), by_path=by_path) == []
    harmless = [
        ("Content-Type", "text/html"),
        ("Location", "/x"),
        ("Content-Security-Policy", "default-src 'self'"),
    ]
    assert passed(*harmless, by_path=by_path) == harmless


def test_by_path_nothing_counts_for_the_origin() -> None:
    for name in (*http_head.ORIGIN_WIDE, "Attribution-Reporting-Register-Source"):
        assert passed((name.title(), "a=b"), by_path=True) == []
        assert len(passed((name, "a=b"), by_path=False)) == 1


def test_cookies_of_a_container_are_for_its_host_and_not_ours() -> None:
    for given, kept in (
        ("a=b; Path=/; HttpOnly", "a=b; Path=/; HttpOnly"),
        ("a=b; Domain=example.org; Secure", "a=b; Secure"),
        ("a=b; domain = .example.org; DOMAIN=x", "a=b"),
        ("arvados_api_token=evil", ""),
        (" arvados_api_token =evil", ""),
        ("=arvados_api_token=evil", ""),
        ("arvados_api_token", ""),
        ("=", ""),
        ("", ""),
    ):
        assert passed(("Set-Cookie", given), by_path=False) == (
            [("Set-Cookie", kept)] if kept else []
        )


@pytest.mark.parametrize(
    ("header", "cookies"),
    [
        ("", []),
        ("a=b; c=d", [("a", "b"), ("c", "d")]),
        ("a=b;c=d=", [("a", "b"), ("c", "d=")]),
        ("x=1 a=b", [("x", "1 a=b")]),
        ('a="b c"; d="; e=', [("a", "b c"), ("d", '"'), ("e", "")]),
        ("=a; b; ; a=\xe9", [("", "a"), ("a", "\xe9")]),
        ("a=1; a=2", [("a", "1"), ("a", "2")]),
    ],
)
def test_only_a_semicolon_ends_a_cookie(header: str, cookies: list[tuple[str, str]]) -> None:
    assert http_head.read_cookies(header) == cookies
