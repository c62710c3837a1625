"""Rules against requests and responses across origins: pages that make a browser send requests
here, and header fields of containers' responses.

A browser adds cookies and the password of HTTP Basic to any request, whatever page caused it. So
these count only for requests of our own pages and for plain links (Fetch Metadata,
https://www.w3.org/TR/fetch-metadata/). A token in the header Authorization is not added by
browsers: it counts for every origin, as in CORS. Programs send neither header.

A response of a container applies to the container's address only: header fields that would govern
the whole host, a proxy in front or cookies of others are removed. By path containers share the
origin of the API, so fields that govern an origin are removed as well.
"""

from __future__ import annotations

from collections.abc import Mapping

from lading.core.errors import Forbidden
from lading.core.protocols.http_head import HttpHead

_OURS = ("same-origin", "none")
_PORTS = {"https": ":443", "http": ":80"}
_SCHEMES = {"wss": "https", "ws": "http"}
HOST_WIDE = frozenset(
    {
        "alt-svc", "clear-site-data", "expect-ct", "nel", "public-key-pins",
        "public-key-pins-report-only", "report-to", "secure-session-challenge",
        "secure-session-registration", "sec-session-challenge", "sec-session-registration",
        "set-cookie2", "set-login", "strict-transport-security", "x-lighttpd-send-file",
        "x-reproxy-url", "x-sendfile",
    }
)  # fmt: skip
"""Fields of a container's response that would apply to other hosts, other ports or a proxy in
front.
"""
ORIGIN_WIDE = frozenset(
    {
        "accept-ch", "access-control-allow-credentials", "authentication-info", "critical-ch",
        "origin-agent-cluster", "reporting-endpoints", "service-worker-allowed", "set-cookie",
        "shared-storage-write", "speculation-rules", "use-as-dictionary", "www-authenticate",
    }
)  # fmt: skip
"""Fields that would apply to a whole origin."""
_HOST_WIDE_BEGIN = ("x-accel-", "x-arvados-")
_ORIGIN_WIDE_BEGIN = ("attribution-reporting-",)


def is_explicit(headers: Mapping[str, str]) -> bool:
    """Whether a request has a token, which browsers do not add by themselves."""
    return _scheme_of(headers) in ("bearer", "oauth2")


def is_foreign(method: str, headers: Mapping[str, str], *, scheme: str) -> bool:
    """Whether a page of another origin caused this request, other than by a plain link.

    `scheme` is that of the connection: https or wss, or http or ws on the local socket.
    """
    site = headers.get("sec-fetch-site", "").strip().lower()
    if site:
        if site in _OURS:
            return False
    # Older browsers send Origin but no Fetch Metadata.
    else:
        origin = headers.get("origin", "").strip().lower()
        if not origin or origin in _own(headers, scheme):
            return False
    is_link = (
        headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
    return not (is_link and method in ("GET", "HEAD"))


def check_call(method: str, headers: Mapping[str, str], *, scheme: str) -> None:
    """Refuse a call from a page of another origin with its reader's password, or by a form. Raises
    Forbidden.
    """
    if is_explicit(headers) or not is_foreign(method, headers, scheme=scheme):
        return
    if _scheme_of(headers) == "basic":
        raise Forbidden(
            "Forbidden: a page of another site sent this request "
            "with a password that the browser keeps; send 'Authorization: Bearer TOKEN'"
        )
    # A form cannot send JSON; with other types no CORS preflight asks first.
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    if method == "POST" and media != "application/json":
        raise Forbidden(
            "Forbidden: a form of another site sent this request; "
            "send 'Authorization: Bearer TOKEN', or JSON"
        )


def passed_on(answer: HttpHead, *, by_path: bool, reserved: tuple[str, ...]) -> HttpHead:
    """The response of a container for a browser; `reserved` are prefixes of our own cookies.

    `by_path`: it shares the origin of the API. Cookies are for the host that sets them, never for a
    whole domain.
    """
    begin = _HOST_WIDE_BEGIN + (_ORIGIN_WIDE_BEGIN if by_path else ())
    kept = []
    for name, value in answer.fields:
        lower = name.lower()
        if lower in HOST_WIDE or lower.startswith(begin) or (by_path and lower in ORIGIN_WIDE):
            continue
        if lower == "set-cookie":
            cookie = _own_cookie(value, reserved)
            if cookie:
                kept.append((name, cookie))
            continue
        kept.append((name, value))
    return HttpHead(answer.start, tuple(kept))


def _own_cookie(value: str, reserved: tuple[str, ...]) -> str:
    """A Set-Cookie without its domain; "" for a reserved or missing name: without a name, browsers
    would take the value for one.
    """
    pair, *attributes = value.split(";")
    name, found, _ = pair.partition("=")
    if not found or not name.strip() or name.strip().startswith(reserved):
        return ""
    kept = [one for one in attributes if one.partition("=")[0].strip().lower() != "domain"]
    return ";".join((pair, *kept))


def _scheme_of(headers: Mapping[str, str]) -> str:
    return headers.get("authorization", "").strip().partition(" ")[0].lower()


def _own(headers: Mapping[str, str], scheme: str) -> tuple[str, ...]:
    """The origin of a request's target, as a browser writes it: with and without the default
    port.
    """
    scheme = _SCHEMES.get(scheme, scheme)
    host = headers.get("host", "").strip().lower()
    return f"{scheme}://{host}", f"{scheme}://{host.removesuffix(_PORTS.get(scheme, ''))}"
