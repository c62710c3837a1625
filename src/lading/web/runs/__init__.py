"""Pages of runs: the list, one run with its failures, steps and drawings, its report."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.runs import comparing, drawings, listing, outputs, page, report, steps

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/", listing.show),
    route("GET", "/ui/runs", listing.show),
    route("GET", "/ui/runs/rows", listing.refresh),
    route("GET", "/ui/runs/new", listing.tell_new),
    route("GET", "/ui/runs/{uuid}", page.show),
    route("GET", "/ui/runs/{uuid}/state", page.refresh),
    route("POST", "/ui/runs/{uuid}/cancel", page.cancel),
    route("GET", "/ui/runs/{uuid}/steps", steps.show),
    route("GET", "/ui/runs/{uuid}/outputs", outputs.show),
    route("GET", "/ui/runs/{uuid}/graph", drawings.show_graph),
    route("GET", "/ui/runs/{uuid}/timeline", drawings.show_timeline),
    route("GET", "/ui/runs/{uuid}/compare", comparing.show),
    route("GET", "/ui/runs/{uuid}/report", report.show),
)
