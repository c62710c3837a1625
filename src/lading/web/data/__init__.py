"""Pages of data: projects and what is in them, collections, the trash, and search over all."""

from __future__ import annotations

from typing import Final

from lading.web.data import access, collections, projects, search, trash, upload
from lading.web.routes import PageRoute, route

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/projects", projects.show_home),
    route("GET", "/ui/projects/shared", projects.show_shared),
    route("GET", "/ui/projects/{uuid}", projects.show),
    route("POST", "/ui/projects/{uuid}/projects", projects.create_project),
    route("GET", "/ui/collections/{uuid}", collections.show),
    route("GET", "/ui/collections/{uuid}/show", collections.show_file),
    route("GET", "/ui/collections/{uuid}/raw", collections.show_raw),
    route("GET", "/ui/collections/{uuid}/download", collections.download),
    route("POST", "/ui/projects/{uuid}/collections", upload.create_collection),
    route("POST", "/ui/collections/{uuid}/upload", upload.put, raw=True),
    route("POST", "/ui/collections/{uuid}/name", collections.rename),
    route("GET", "/ui/access/{uuid}", access.show),
    route("POST", "/ui/access/{uuid}", access.give),
    route("POST", "/ui/access/{uuid}/remove", access.remove),
    route("POST", "/ui/access/{uuid}/address", access.make_address),
    route("POST", "/ui/access/{uuid}/end", access.end_address),
    route("GET", "/ui/trash", trash.show),
    route("POST", "/ui/trash/{uuid}", trash.put_in),
    route("POST", "/ui/trash/{uuid}/restore", trash.take_out),
    route("GET", "/ui/search", search.show),
)
