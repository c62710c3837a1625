"""Views of several requests: two of them compared, their timeline, their graph."""

from __future__ import annotations

from typing import Final

from lading.web.graphs import compare, graph, timeline
from lading.web.routes import PageRoute, route

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/requests/{uuid}/compare", compare.show),
    route("GET", "/ui/requests/{uuid}/timeline", timeline.show),
    route("GET", "/ui/requests/{uuid}/graph", graph.show),
    route("GET", "/ui/collections/{uuid}/graph", graph.show_content),
)
