"""Tokens of pages of lists.

A token has the creation time and uuid of the last record of a page, and a digest of what the list
is about, all signed: new records never shift later pages, and a token serves only the list that it
came from.

Source: GA4GH Task Execution Service 1.1.0, ListTasks; Workflow Execution Service 1.1.0, ListRuns.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lading.core.errors import Malformed
from lading.core.values import Json, canonical

# TES 1.1: the default of `page_size`.
DEFAULT_PAGE = 256
# Bytes of the signature of a token: 128 bits cannot be guessed.
_DIGEST = 16


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The last record of a page: its creation time and its uuid."""

    created_at: str
    uuid: str


def parse_page_size(value: str, most: int) -> int:
    """The number of records that a parameter asks for, DEFAULT_PAGE for none. Raises Malformed."""
    size = value or str(DEFAULT_PAGE)
    if not size.isascii() or not size.isdigit() or len(size) > 4 or not 1 <= int(size) <= most:
        raise Malformed(f"page_size: must be a whole number from 1 to {most}")
    return int(size)


def make_page_token(cursor: PageCursor, about: Json, *, secret: bytes) -> str:
    """The token of the page after `cursor` of the list that `about` describes."""
    text = f"{cursor.created_at} {cursor.uuid}".encode()
    return base64.urlsafe_b64encode(_sign(text, about, secret) + text).decode().rstrip("=")


def read_page_token(token: str, about: Json, *, secret: bytes) -> PageCursor:
    """The cursor of a token. Raises Malformed for a damaged one and for that of another list."""
    refused = Malformed("page_token: is not of this list; begin again without it")
    try:
        raw = base64.b64decode(token.encode() + b"=" * (-len(token) % 4), b"-_", validate=True)
    except ValueError:
        raise refused from None
    signature, text = raw[:_DIGEST], raw[_DIGEST:]
    if not hmac.compare_digest(signature, _sign(text, about, secret)):
        raise refused
    created_at, _, uuid = text.decode().partition(" ")
    return PageCursor(created_at, uuid)


def is_after(cursor: PageCursor | None, row: Mapping[str, str]) -> bool:
    """Whether a record comes after `cursor`, newest first."""
    if cursor is None:
        return True
    return (row["created_at"], row["uuid"]) < (cursor.created_at, cursor.uuid)


def _sign(content: bytes, about: Json, secret: bytes) -> bytes:
    described = canonical(about).encode("utf-8", "surrogatepass")
    signed = b"tes page\0" + described + b"\0" + content
    return hmac.digest(secret, signed, hashlib.sha256)[:_DIGEST]


def merge_pages(
    page: Sequence[Mapping[str, str]], beside: Sequence[Mapping[str, str]], end: PageCursor | None
) -> list[Any]:
    """Two lists of requests as one, newest first; of `beside` those before `end`, where `page`
    ends so far.
    """
    rows = {row["uuid"]: row for row in page}
    rows |= {row["uuid"]: row for row in beside if end is None or not is_after(end, row)}
    return sorted(rows.values(), key=lambda row: (row["created_at"], row["uuid"]), reverse=True)
