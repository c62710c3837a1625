"""Sets of scopes that people choose by name, on the command line and on the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

API: Final = "/arvados/v1/"
METHODS: Final = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
ALL: Final = ("all",)
READ_ONLY: Final = ("GET /",)
BLOCKS: Final = f"GET {API}keep_services/accessible"
UPLOAD: Final = (
    f"POST {API}collections",
    BLOCKS,
    f"GET {API}config",
    f"GET {API}users/current",
)
"""A new collection, its blocks, and the queries of clients before an upload (docs/spec/api, section
Scopes).
"""


def read_scope(scope: str) -> str | None:
    """The scope of a text `METHOD /path`, whose path may lack /arvados/v1/; None for another
    text.
    """
    method, _, path = scope.strip().partition(" ")
    path = path.strip()
    if method.upper() not in METHODS or not path or " " in path:
        return None
    return f"{method.upper()} {path if path.startswith('/') else API + path}"


def reading_collection(uuid: str) -> Iterator[str]:
    """The scopes of a token with which an address reads one collection, and nothing else."""
    yield f"GET {API}collections/{uuid}"
    yield f"GET {API}collections/{uuid}/"
    yield BLOCKS
