"""The port of a server by its URL."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from lading.net.urls import is_secure, server_port


@pytest.mark.parametrize(
    ("url", "secure", "port"),
    [
        ("http://site", False, 80),
        ("https://site", True, 443),
        ("wss://site/path", True, 443),
        ("ws://site", False, 80),
        ("http://site:8000", False, 8000),
        ("https://[::1]:8443", True, 8443),
    ],
)
def test_a_url_without_a_port_means_that_of_its_scheme(url: str, secure: bool, port: int) -> None:
    assert is_secure(urlsplit(url)) is secure
    assert server_port(urlsplit(url)) == port


def test_a_port_beyond_the_last_is_an_error() -> None:
    with pytest.raises(ValueError, match="Port out of range"):
        server_port(urlsplit("http://site:70000"))
