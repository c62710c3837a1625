"""Rules between the page and browsers: headers of every response, the cookie, who may send a form,
and where a login may lead.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from lading.core.errors import Forbidden
from lading.core.protocols import http_head

HOME: Final = "/ui/"
COOKIE: Final = http_head.PAGE_COOKIE
"""Name of the session cookie. The prefix makes browsers refuse one that another host or a plain
connection has set (RFC 6265bis, section 4.1.3.2).
"""
_POLICY: Final = "; ".join(
    (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'",
        "font-src 'self'", "connect-src 'self'", "form-action 'self'", "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)  # fmt: skip
HEADERS: Final = {
    # Unless the answer says otherwise, as style and scripts do.
    "Cache-Control": "no-store",
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Browsers ignore it for addresses without a name and for certificates that they do not trust.
    "Strict-Transport-Security": "max-age=31536000",
}
TOKEN_BYTES: Final = 32
"""Random bytes of a token of forms."""
TERMINAL: Final = _POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
"""Content-Security-Policy of the page with a terminal: xterm.js puts style elements into the page,
without which its text has the colour of its ground, and style attributes for the colours of the
output. Scripts are restricted as on all pages.
"""
FRAMING: Final = f"{_POLICY}; frame-src 'self'"
"""Content-Security-Policy of a page that shows a file in a frame: the frame cannot leave this
host.
"""
DOWNLOAD: Final = "default-src 'none'; sandbox"
"""Content-Security-Policy of a file that a container wrote."""
DOCUMENT: Final = f"{DOWNLOAD}; frame-ancestors 'self'"
"""Content-Security-Policy of a document (PDF) that a container wrote, in a frame of a page of
ours.
"""
REPORT: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'; "
    "frame-ancestors 'none'"
)
"""Content-Security-Policy of a report: a page of its own with styles, which quotes strangers."""
_DOT: Final = re.compile("%2e", re.IGNORECASE)
# A path below the page without a backslash, which browsers read as a slash.
_PLACE: Final = re.compile(r"/ui/[!-\[\]-~]*")


def frame_policy(*, scripts: bool) -> str:
    """Content-Security-Policy of a page that a container wrote, shown in a frame: no origin, no
    network, and scripts only if its reader wants them.
    """
    return "; ".join(
        (
            "sandbox allow-scripts" if scripts else "sandbox",
            "default-src 'none'",
            *(("script-src 'unsafe-inline'",) if scripts else ()),
            "style-src 'unsafe-inline'",
            "img-src data:",
            "font-src data:",
            "form-action 'none'",
            "base-uri 'none'",
            "frame-ancestors 'self'",
        )
    )


def cookie(secret: str, *, seconds: int) -> str:
    """The Set-Cookie header of a session; 0 seconds remove the cookie."""
    return f"{COOKIE}={secret}; Path=/; Max-Age={seconds}; Secure; HttpOnly; SameSite=Lax"


def read_cookie(header: str) -> str:
    """The secret of the session in a Cookie header; "" for none, and for more than one: a browser
    has one cookie with this name.
    """
    values = [value for name, value in http_head.read_cookies(header) if name == COOKIE]
    return values[0] if len(values) == 1 else ""


def form_token(secret: str, chance: bytes) -> str:
    """A token that forms of a session carry; it does not tell the session's secret.

    `chance`: TOKEN_BYTES random bytes, so that no two pages have the same token, and the size of a
    compressed page tells nothing about it.
    """
    return (chance + _mixed(_digest(secret), chance)).hex()


def check_form(
    method: str, headers: Mapping[str, str], *, scheme: str, secret: str, form_token: str
) -> None:
    """Check that a page of ours sent a form. Raises Forbidden.

    `secret` is that of the session, "" where there is none yet; `form_token` is the form's token.
    """
    if http_head.is_foreign(method, headers, scheme=scheme):
        raise Forbidden("Forbidden: a page of another site sent this form; use the form here")
    if secret and not _is_token(secret, form_token):
        raise Forbidden("Forbidden: this form is too old; reload the page and send it again")


def _is_token(secret: str, form_token: str) -> bool:
    try:
        data = bytes.fromhex(form_token)
    except ValueError:
        return False
    chance, masked = data[:TOKEN_BYTES], data[TOKEN_BYTES:]
    if len(masked) != TOKEN_BYTES:
        return False
    return hmac.compare_digest(_mixed(masked, chance), _digest(secret))


def _digest(secret: str) -> bytes:
    return hmac.digest(secret.encode(), b"form of the page", "sha256")


def _mixed(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def check_socket(headers: Mapping[str, str], *, scheme: str) -> None:
    """Check that a page of ours opens a websocket: browsers always say the origin of the page
    (RFC 6455, section 10.2). Raises Forbidden.
    """
    said = {name: headers.get(name, "") for name in ("host", "origin")}
    site = headers.get("sec-fetch-site", "same-origin")
    if not said["origin"] or http_head.is_foreign("POST", said, scheme=scheme):
        raise Forbidden("Forbidden: a page of another site opened this connection")
    if site != "same-origin":
        raise Forbidden("Forbidden: a page of another site opened this connection")


def own_place(headers: Mapping[str, str]) -> str:
    """The page of ours that a form was sent from, "" if the browser does not say."""
    referer, host = headers.get("referer", ""), headers.get("host", "")
    prefix = f"//{host}/"
    _, found, path = referer.partition(prefix)
    if not host or not found or not referer.startswith(("https:" + prefix, "http:" + prefix)):
        return ""
    place = safe_place(f"/{path}")
    return place if place == f"/{path}" else ""


def safe_place(address: str) -> str:
    """An address of the page to go to after a login: `address` itself, else the first page.

    Browsers read `//host` and `/\\host` as addresses of other hosts, drop control characters, and
    read `%2e` as a dot where they look for `..`.
    """
    if not _PLACE.fullmatch(address) or "//" in address.partition("?")[0]:
        return HOME
    try:
        parts = urlsplit(address)
    except ValueError:
        return HOME
    has_dots = "/.." in _DOT.sub(".", parts.path)
    return HOME if parts.scheme or parts.netloc or has_dots else address
