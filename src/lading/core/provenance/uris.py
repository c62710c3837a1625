"""Text as a part of a URI (RFC 3986)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

PATH: Final = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/:+@=,;!$&'()*"
)
"""Characters of a path that are themselves in a URI."""


def escaped(value: str, safe: AbstractSet[str] = PATH) -> str:
    """The text with all other characters as the escapes of their bytes in UTF-8."""
    return "".join(
        chr(byte) if chr(byte) in safe else f"%{byte:02X}"
        for byte in value.encode("utf-8", "surrogatepass")
    )
