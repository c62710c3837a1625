"""Pages of what the site has for all requests: its images."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.site import images

ROUTES: Final[tuple[PageRoute, ...]] = (route("GET", "/ui/images", images.show),)
