"""Pages of templates: the list, and the form that runs one."""

from __future__ import annotations

from typing import Final

from lading.web.routes import PageRoute, route
from lading.web.run_templates import form, listing

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/templates", listing.show),
    route("GET", "/ui/templates/{uuid}", form.show),
    route("POST", "/ui/templates/{uuid}/run", form.run),
)
