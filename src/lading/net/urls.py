"""URLs: the port of a server whose URL names none (RFC 3986, 3.2.3; RFC 9110, 4.2)."""

from __future__ import annotations

from urllib.parse import SplitResult

HTTP_PORT = 80
HTTPS_PORT = 443


def is_secure(url: SplitResult) -> bool:
    """Whether the URL's scheme is one of HTTP over TLS."""
    return url.scheme in {"https", "wss"}


def server_port(url: SplitResult) -> int:
    """The port in the URL, or the default port of its scheme.

    Raises ValueError for a port that is no number from 0 to 65535.
    """
    return url.port or (HTTPS_PORT if is_secure(url) else HTTP_PORT)
