"""Scopes that people write and choose."""

from __future__ import annotations

import pytest

from lading.core.policy import token_scopes


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("GET /x", "GET /x"),
        (" get  collections/ ", "GET /arvados/v1/collections/"),
        ("BURN /x", None),
        ("GET", None),
        ("GET a b", None),
        ("", None),
    ],
)
def test_a_scope(text: str, scope: str | None) -> None:
    assert token_scopes.read_scope(text) == scope


def test_a_collection() -> None:
    scopes = list(token_scopes.reading_collection("u"))
    assert scopes[:2] == ["GET /arvados/v1/collections/u", "GET /arvados/v1/collections/u/"]
