"""Parameters in a multipart/form-data body (RFC 7578), as scripts in browsers send them.

Only texts are parameters: a part that is a file, or is encoded, is refused.
"""

from __future__ import annotations

import re
from typing import Final

from lading.core.errors import Malformed

MEDIA: Final = "multipart/form-data"
MOST: Final = 1000
"""Parts in one body, as many as parameters in a form."""
_BOUNDARY: Final = re.compile(
    r';\s*boundary=(?:"([^"\\]{1,70})"|([^\s;",]{1,70}))\s*(?:;|$)', re.IGNORECASE
)
_NAME: Final = re.compile(rb'form-data;\s*name="((?:[^"\\\r\n]|\\.)*)"', re.IGNORECASE)


def parse(raw: bytes, content_type: str) -> list[tuple[str, str]]:
    """Names and values, in order. Raises Malformed."""
    found = _BOUNDARY.search(content_type)
    if found is None:
        raise Malformed(f"Content-Type: {MEDIA} needs a boundary")
    line = b"--" + (found[1] or found[2]).encode("latin-1", "replace")
    # Text before the first boundary and after the last is no part (RFC 2046, section 5.1.1).
    parts = (b"\r\n" + raw).split(b"\r\n" + line, MOST + 1)
    if len(parts) < 2 or not parts[-1].startswith(b"--"):
        raise Malformed(
            f"request body: {MEDIA} ends without its boundary, or has more than {MOST} parts"
        )
    return [_field(part) for part in parts[1:-1]]


def _field(part: bytes) -> tuple[str, str]:
    # Blanks may follow a boundary (RFC 2046, section 5.1.1).
    head, found, value = part.lstrip(b" \t").partition(b"\r\n\r\n")
    fields = [line.partition(b":") for line in head.split(b"\r\n") if line]
    names = [
        _NAME.fullmatch(one[2].strip())
        for one in fields
        if one[0].strip().lower() == b"content-disposition"
    ]
    if not found or len(names) != 1 or names[0] is None:
        raise Malformed(
            f"request body: a part of {MEDIA} must be a parameter with a name, not a file"
        )
    try:
        return re.sub(r"\\(.)", r"\1", names[0][1].decode()), value.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"request body: {MEDIA}: {error}") from None
