"""Pages of runs: the list, one run with its failures, steps, drawings and outputs."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.runs import listing

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/", listing.show),
    route("GET", "/ui/runs", listing.show),
    route("GET", "/ui/runs/rows", listing.refresh),
    route("GET", "/ui/runs/new", listing.tell_new),
)
