"""Text as a part of a URI (RFC 3986)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

PATH: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:+@=,;!$&'()*"
)
"""Characters of a path that are themselves in a URI."""


def escaped(text: str, kept: AbstractSet[str] = PATH) -> str:
    """The text with all other characters as the escapes of their bytes in UTF-8."""
    return "".join(
        chr(one) if chr(one) in kept else f"%{one:02X}"
        for one in text.encode("utf-8", "surrogatepass")
    )
