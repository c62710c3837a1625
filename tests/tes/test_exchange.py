"""Credentials of callers."""

from __future__ import annotations

from base64 import b64encode

from lading.tes.exchange import find_token


def test_headers_without_a_token() -> None:
    assert find_token("Basic ???") == ""
    assert find_token("Basic " + b64encode(b"\xff:\xff").decode()) == ""
    assert find_token("Digest abc") == ""
