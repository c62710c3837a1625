"""Credentials of calls: the first of these sources has the token.

The sources: the address, the Authorization header (Bearer, OAuth2, or the password of Basic with
any user name), the parameter `api_token`, the cookie `arvados_api_token`. Other sites can make a
browser send the cookie, so it permits reads only, and only for pages of this origin and plain links
(`core.protocols.http_head`). A browser with a token in the address is redirected to the address
without it and gets the token as a cookie.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlencode

from lading.core.protocols import http_head
from lading.webdav.file_request import FileAddress

_READS: Final = ("GET", "HEAD", "PROPFIND", "OPTIONS")
"""Methods that change nothing."""
SESSION_COOKIE: Final = "arvados_api_token"

_PARAMETER: Final = "api_token"


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """A token, "" for none; `onward` is the redirect target without the token, or ""."""

    token: str
    onward: str = ""


def find_credential(
    method: str,
    address: FileAddress,
    headers: Mapping[str, str],
    query: str,
    *,
    scheme: str = "https",
) -> Credential:
    """The credential of a request. Raises Forbidden for Basic credentials sent by a page of another
    site.
    """
    # A token in the address was chosen by the author of the link, so no other source counts.
    if address.token is not None:
        return Credential(token=address.token)
    http_head.check_call(method, headers, scheme=scheme)
    token = _authorization(headers.get("authorization", ""))
    if token:
        return Credential(token=token)
    pairs = parse_qsl(query, keep_blank_values=True)
    token = next((value for name, value in pairs if name == _PARAMETER and value), "")
    if token:
        rest = urlencode([(name, value) for name, value in pairs if name != _PARAMETER])
        onward = address.url(address.path, folder=address.folder) + (f"?{rest}" if rest else "")
        # Only a browser asks for HTML; other clients would lose the token by the redirection.
        browser = method == "GET" and "text/html" in headers.get("accept", "")
        return Credential(token=token, onward=onward if browser else "")
    if method not in _READS or http_head.is_foreign(method, headers, scheme=scheme):
        return Credential(token="")
    return Credential(token=_cookie(headers.get("cookie", "")))


def session_cookie(token: str) -> str:
    """The Set-Cookie header of a session cookie with a token."""
    value = base64.urlsafe_b64encode(token.encode()).decode()
    # HttpOnly: scripts cannot read it. SameSite=Lax: other sites can only cause plain links with
    # it.
    return f"{SESSION_COOKIE}={value}; Path=/; HttpOnly; Secure; SameSite=Lax"


def _authorization(header: str) -> str:
    scheme, _, rest = header.partition(" ")
    match scheme.lower():
        case "bearer" | "oauth2":
            return rest.strip()
        case "basic":
            return _base64_text(rest).partition(":")[2]
    return ""


def _cookie(header: str) -> str:
    values = [value for name, value in http_head.read_cookies(header) if name == SESSION_COOKIE]
    return _base64_text(values[-1]) if values else ""


def _base64_text(encoded: str) -> str:
    try:
        return base64.b64decode(
            # Browsers and clients write either alphabet.
            encoded.strip().replace("-", "+").replace("_", "/"),
            validate=True,
        ).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
