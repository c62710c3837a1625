"""Pages of requests: the list, one request, its log and its output, the form."""

from __future__ import annotations

from typing import Final

from lading.web.requests import files, input_upload, listing, log, page, submit, usage
from lading.web.routes import PageRoute, route

ROUTES: Final[tuple[PageRoute, ...]] = (
    route("GET", "/ui/requests", listing.show),
    route("GET", "/ui/requests/rows", listing.refresh),
    route("GET", "/ui/requests/new", listing.tell_new),
    route("POST", "/ui/requests/cancel", listing.cancel),
    route("POST", "/ui/requests/again", listing.run_again),
    route("GET", "/ui/requests/submit", submit.show),
    route("POST", "/ui/requests/submit", submit.submit),
    route("POST", "/ui/requests/submit/collection", input_upload.create),
    route("GET", "/ui/requests/{uuid}", page.show),
    route("GET", "/ui/requests/{uuid}/state", page.refresh_state),
    route("GET", "/ui/requests/{uuid}/results", page.refresh_results),
    route("POST", "/ui/requests/{uuid}/cancel", page.cancel),
    route("POST", "/ui/requests/{uuid}/priority", page.prioritize),
    route("POST", "/ui/requests/{uuid}/again", page.run_again),
    route("GET", "/ui/requests/{uuid}/files", files.show),
    route("GET", "/ui/requests/{uuid}/files/show", files.show_file),
    route("GET", "/ui/requests/{uuid}/files/raw", files.show_raw),
    route("GET", "/ui/requests/{uuid}/files/download", files.download),
    route("GET", "/ui/requests/{uuid}/usage", usage.show),
    route("GET", "/ui/requests/{uuid}/usage/table", usage.refresh),
    route("GET", "/ui/requests/{uuid}/log", log.show),
    route("GET", "/ui/requests/{uuid}/log/earlier", log.earlier),
    route("GET", "/ui/requests/{uuid}/log/follow", log.follow),
    route("GET", "/ui/requests/{uuid}/log/download", log.download),
)
