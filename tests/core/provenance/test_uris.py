"""Text in URIs."""

from __future__ import annotations

from lading.core.provenance.uris import escaped


def test_other_characters_are_escaped_by_their_bytes() -> None:
    assert escaped("a b/é%~") == "a%20b/%C3%A9%25~"
    assert escaped("a/b~", frozenset("ab")) == "a%2Fb%7E"
    assert escaped("\udcff") == "%ED%B3%BF"
