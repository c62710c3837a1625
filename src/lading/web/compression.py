"""Compressed responses (RFC 9110, section 8.4.1.3).

The size of a compressed page tells whether a text that a stranger chose occurs in it, such as the
text of a search beside a secret (BREACH). A page that another site can have a browser ask for is
therefore sent as it is; the token of forms differs in each response besides (`browser_rules`).
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from typing import Final

from starlette.responses import Response

_LEAST: Final = 1000
"""Bytes below which a page stays as it is: it fits into one packet."""
_PAGE_LEVEL, _FILE_LEVEL = 4, 9
_OWN: Final = ("same-origin", "none")
"""Values of Sec-Fetch-Site when a page of ours or the reader asks."""
_VARY: Final = "Accept-Encoding, Sec-Fetch-Site"


def accepts_gzip(headers: Mapping[str, str]) -> bool:
    """Whether a browser reads gzip."""
    for coding in headers.get("accept-encoding", "").split(","):
        name, _, weight = coding.partition(";")
        if name.strip().lower() == "gzip":
            return weight.replace(" ", "").lower() not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False


def compress_page(response: Response, headers: Mapping[str, str]) -> None:
    """Compress a page whose request has these headers, unless another site may have sent it."""
    body = getattr(response, "body", b"")
    if len(body) < _LEAST or not response.headers["content-type"].startswith("text/html"):
        return
    response.headers["Vary"] = _VARY
    if headers.get("sec-fetch-site") not in _OWN or not accepts_gzip(headers):
        return
    response.body = gzip.compress(body, _PAGE_LEVEL, mtime=0)
    response.headers["Content-Length"] = str(len(response.body))
    response.headers["Content-Encoding"] = "gzip"


def compress_file(data: bytes) -> bytes:
    """A file of the page that is sent often, as small as can be."""
    return gzip.compress(data, _FILE_LEVEL, mtime=0)
