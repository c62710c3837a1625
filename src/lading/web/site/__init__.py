"""Pages of what the site has for all requests: its images and its machines."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.site import images, machines

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/images", images.show),
    route("GET", machines.PLACE, machines.show),
    route("GET", "/ui/machines/list", machines.refresh),
    route("POST", "/ui/machines/order", machines.order),
)
